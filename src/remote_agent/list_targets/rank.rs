//! The order of a listing that is for some work: the targets whose skills, tags and descriptions fit its words best come first.

use serde_json::Value;

/// The least length of a word that also stands for longer ones that begin with it, in characters.
const MIN_STEM_CHARS: usize = 4;

/// How many words of a query and of one text count.
const MAX_WORDS: usize = 400;

/// The fields of a listed target and of a skill, and what a word in them is worth.
const TARGET_FIELDS: [(&str, usize); 5] = [
    ("tags", 4),
    ("target_alias", 3),
    ("target_name", 3),
    ("examples", 2),
    ("description", 1),
];
const SKILL_FIELDS: [(&str, usize); 5] = [
    ("tags", 4),
    ("id", 3),
    ("name", 3),
    ("examples", 2),
    ("description", 1),
];

/// The words that a listing is for.
pub(super) struct Query(Vec<String>);

impl Query {
    pub(super) fn new(text: &str) -> Self {
        Self(words(text).collect())
    }

    /// Returns how well a listed target fits: each word counts once, where it is worth most.
    pub(super) fn score(&self, target: &Value) -> usize {
        let skills = target["peer_card"]["skills"].as_array();
        let of_skills = skills
            .into_iter()
            .flatten()
            .flat_map(|skill| fields(skill, &SKILL_FIELDS));
        let texts: Vec<_> = fields(target, &TARGET_FIELDS).chain(of_skills).collect();
        let known: Vec<(String, usize)> = texts
            .into_iter()
            .flat_map(|(text, worth)| words(text).map(move |word| (word, worth)))
            .collect();
        let best = |word: &String| {
            let fits = known.iter().filter(|(known, _)| is_like(word, known));
            fits.map(|(_, worth)| *worth).max().unwrap_or(0)
        };
        self.0.iter().map(best).sum()
    }
}

/// Returns the texts of the fields: strings, and the items of lists of strings.
fn fields<'a>(
    value: &'a Value,
    names: &'a [(&str, usize)],
) -> impl Iterator<Item = (&'a str, usize)> {
    names.iter().flat_map(move |(name, worth)| {
        let field = &value[*name];
        let items = field.as_array().map_or(&[][..], Vec::as_slice);
        let texts = field.as_str().into_iter();
        let texts = texts.chain(items.iter().filter_map(Value::as_str));
        texts.map(move |text| (text, *worth))
    })
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).take(MAX_WORDS)
}

/// Returns whether two words are equal, or one is the beginning of the other.
fn is_like(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    a == b || (long.starts_with(short) && short.chars().nth(MIN_STEM_CHARS - 1).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(query: &str) -> Vec<String> {
        let mut summary = [
            json!({"target_alias": "desk", "description": "Answers what customers ask.", "tags": ["support"]}),
            json!({"target_alias": "law", "tags": ["contracts"], "peer_card": {"skills": [{"id": "x", "name": "Review", "tags": ["legal"]}]}}),
            json!({"target_alias": "pen", "description": "Writes about contracts.", "peer_card": {"skills": [{"id": "t", "name": "Translation", "description": "German"}]}}),
        ];
        let query = Query::new(query);
        summary.sort_by_key(|target| std::cmp::Reverse(query.score(target)));
        summary
            .iter()
            .map(|target| {
                target["target_alias"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn the_best_fit_comes_first_and_others_keep_their_order() {
        for (query, expected) in [
            ("review a contract", ["law", "pen", "desk"]),
            ("GERMAN translations", ["pen", "desk", "law"]),
            ("customer support", ["desk", "law", "pen"]),
            ("nothing of that", ["desk", "law", "pen"]),
        ] {
            assert_eq!(order(query), expected, "{query}");
        }
    }
}
