//! Which characters cannot be seen, and what others may be taken for (Unicode Technical Standard 39).

use std::sync::LazyLock;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Characters that look like one of ASCII, beside those that Unicode decomposes to it. The letters are those that
/// `confusables.txt` of Unicode leads to a capital, a small or a small capital letter, and some that only people confuse.
/// A test compares them with Unicode's data.
const LOOKALIKES: &[(char, &str)] = &[
    ('/', "᜵⁁⁄∕╱⟋⧶⧸Ⳇⳇ〳ノ㇒㇓丿\u{1d23a}"),
    ('<', "«˂ᐸᚲ‹❬❮❰⟨⟪⟬⟮⦑⧼ⵦ〈《\u{1032d}\u{16aec}\u{1d236}"),
    ('>', "»˃ᐳ›❭❯❱⟩⟫⟭⟯⦒⧽〉》\u{16f3f}\u{1d237}"),
    (
        'A',
        "ɅɑΑΔΛαλАаᎪᗅᴀ∀⍶⍺ꓮꭤꭺ\u{102a0}\u{16f40}\u{1df40}\u{1df41}\u{1df5a}\u{1df6a}",
    ),
    (
        'B',
        "ƀƂƃƄɓʙΒБВЬвѢѣҌҍ\u{7d5}ᏏᏴᏼᑲᑳᖯᗷⲂⲃꓐꕗꚝꞴ\u{10282}\u{102a1}\u{10301}\u{1031c}\u{16eb6}\u{1d207}",
    ),
    (
        'C',
        "¢ȼϲϹСсҪҫငၚᏟᲃᴄ₡Ⲥⲥꓚꮯ\u{102a2}\u{10302}\u{10415}\u{1043d}\u{1051b}\u{118e9}\u{118f2}\u{1d134}\u{1f16e}\
         \u{1f74c}",
    ),
    ('D', "ÐĐđƉƋƌɖɗԁᎠᏧᑯᗞᗪᴅ₫ꓒꓓꭰ\u{1018b}\u{1df2d}"),
    (
        'E',
        "ƎǝɆɇəɛΕΞΣεξЕеєҽҿәԑᎬᴇ℮∃⋴⋿⍷ⲉⴹⴺꓰꓱꗋꞓꬲꭼꮛ\u{10286}\u{10429}\u{118a6}\u{118ae}\u{118ce}\u{1d228}\u{1df43}\
         \u{1df44}\u{1df6d}\u{1df81}",
    ),
    (
        'F',
        "ƑƒʄϜք\u{7d3}ᖴᵮẝꓝꜰꞘꞙꬵ\u{1017e}\u{10287}\u{102a5}\u{10525}\u{118a2}\u{118c2}\u{1d213}",
    ),
    ('G', "ƍǤǥɠɡɢԌԍցᏀᏳᏻᶃꓖꮐ\u{1df30}\u{1df45}"),
    (
        'H',
        "ĦħɦʜΗНнћҢңҺһӇӈӉӊհႹᎻᏂᏲᕼⱧⲎⲏꓧꚕꮋ\u{102cf}\u{1df32}\u{1df46}\u{1df47}",
    ),
    ('J', "ȷɈɉɟͿϳЈјյᎫᒍᴊꓙꞲꭻ"),
    ('K', "ƙΚКҚҞᏦᛕ₭ⱩⲔꓗꝀ\u{10518}\u{1df48}\u{1df49}"),
    (
        'L',
        "¡ıŁłƖƗƚɨɩɪɫɭʟΙιІіӀӏւ\u{5c0}\u{5d5}\u{5df}\u{627}\u{661}\u{673}۱\u{7ca}।၊ᎥᏞᒪᛁᛅᛐᵻᵼ↿⍳⍸ⲒⲓⳐⳑⵊⵏꓡꓲꕯꙇꞁꞮꟾ꠰꣎꩝ꭵ\
         ꮮ\u{1028a}\u{10309}\u{10320}\u{1041b}\u{10443}\u{1050e}\u{10526}\u{10926}\u{10c3e}\u{10ca5}\u{10cfa}\
         \u{11047}\u{110c0}\u{11141}\u{111c5}\u{113d4}\u{1144b}\u{115c5}\u{11641}\u{118a3}\u{118b2}\u{118c3}\
         \u{11c41}\u{11dda}\u{11de1}\u{16ae4}\u{16d63}\u{16eaa}\u{16f16}\u{16f28}\u{1d100}\u{1d22a}\u{1d377}\
         \u{1df6e}\u{1e141}\u{1e8c7}\u{1ed01}",
    ),
    ('M', "ΜϺМӍᎷᗰᛖⲘꓟ\u{102b0}\u{10311}\u{10c21}\u{1df4a}"),
    (
        'N',
        "ŋƝƞɲɳɴΝηИПипղոռᵰⲚⲛꓠ\u{1018e}\u{10513}\u{11abe}\u{1df4d}\u{1df4e}\u{1df4f}",
    ),
    (
        'O',
        "ØøƟɵΘΟθοσϭОоѲѳӨөՕօ\u{5e1}\u{629}\u{647}\u{665}\u{6be}\u{6c1}\u{6c3}\u{6d5}۵\u{6ff}\u{7c0}\u{7cb}\
         \u{840}०০੦૦ଠ୦௦\u{c02}౦\u{c82}೦\u{d02}ഠ൦\u{d82}๐໐တဝ၀თჿᄋᆼዐፀᎤᎾᏫ០ᨲᩅ᪀᪐\u{1bea}ᲂᲿᴏᴑ∅⊖⊝⌀⍥⍬ⲐⲑⲞⲟⴱⵁⵔ〇ꓳꚢꝊꝋꬽꬾꭴꮎꮻ\
         \u{10292}\u{102ab}\u{1030f}\u{10404}\u{1042c}\u{104c2}\u{104ea}\u{10516}\u{1051e}\u{1092c}\u{10c17}\
         \u{10d07}\u{11116}\u{11124}\u{11302}\u{114d0}\u{118b5}\u{118c8}\u{118d7}\u{118e0}\u{11de0}\u{1699b}\
         \u{16ae9}\u{16e80}\u{1d21a}\u{1df3c}\u{1e140}\u{1e2f0}\u{1f714}",
    ),
    ('P', "þƥƿΡρϸРрᏢᑭᴘᴩᵽ⍴ⲢⲣⳎⳏꓑꮲ\u{10295}"),
    ('Q', "ʠԚԛգզⵕꞯ\u{1df34}"),
    (
        'R',
        "ƦɌɍɼɽʀЯгяғᎡᏒᖇᴦᵲⲅꓣꭇꭈꭱꮁꮢ\u{104b4}\u{16a19}\u{16f35}\u{1d216}\u{1df35}\u{1df37}",
    ),
    (
        'S',
        "ƽʂЅѕՏടႽჽᏕᏚᲽᵴꓢꕶꜱꟅꮪ\u{10296}\u{10420}\u{10448}\u{118c1}\u{16ad6}\u{16f3a}",
    ),
    (
        'T',
        "ŦŧƫƭƮȾΤτТтҬҭ\u{7e0}ᎢᎿᴛᵵ₮⊤⍡⟙Ⲧⲧㄒ丅ꓔꔋꚌꚍꭲ\u{10297}\u{102b1}\u{10315}\u{118bc}\u{16f0a}\u{1d373}\u{1f768}",
    ),
    (
        'U',
        "ɄʋυџՍսሀᏌᑌᴜᵾ∪⋃ꓴꞟꭎꭒꮜ\u{104ce}\u{104f6}\u{118b8}\u{118d8}\u{16f42}\u{1df39}",
    ),
    (
        'V',
        "νѴѵ\u{5d8}\u{667}۷Ꮩᐯᴠ∨⋁ⴸꓦꛟꮩ\u{10197}\u{1051d}\u{10c1f}\u{11706}\u{118a0}\u{118c0}\u{16f08}\u{1cefc}\
         \u{1d20d}\u{1df51}\u{1df52}\u{1e145}\u{1f708}",
    ),
    (
        'W',
        "ɯшѡѽԜԝաᎳᏔᴡ₩⧢ⲽꓪꝡꟺꮃꮤ\u{114c5}\u{1170a}\u{1170e}\u{1170f}\u{118e6}\u{118ef}\u{1d20c}\u{1df3f}\u{1df7d}",
    ),
    (
        'X',
        "×ΧХхҲᕁᕽ᙭᙮ᚷᝣ\u{1bec}ᳵ╳⤫⤬⨯⨰ⲬⵝꓫꞳ\u{10196}\u{10290}\u{102b4}\u{10317}\u{10322}\u{10527}\u{10c13}\
         \u{10c82}\u{10cc2}\u{10cfc}\u{118ec}",
    ),
    (
        'Y',
        "¥ƴɎɏɣʏΥγУуҮүҰұ\u{7cc}ყᎩᎽᶌỿⲨⲩㄚ丫ꓬꚲꭚ\u{102b2}\u{10c20}\u{118a4}\u{118c4}\u{118dc}\u{16f43}\u{1df31}\
         \u{1df55}",
    ),
    (
        'Z',
        "ƵƶȤȥʐΖჍᏃᴢᵶⱫⱬⲌⲍⴭꓜꛉꮓ\u{102f5}\u{10507}\u{118a9}\u{118e5}\u{11abc}",
    ),
    ('[', "⁅❲⟦⦋⦍⦏【〔〖"),
    (']', "⁆❳⟧⦌⦎⦐】〕〗"),
    ('|', "ǀ∣⎸⎹⏽│┃❘❙❚︱"),
];

/// Characters that look like several of ASCII.
const SEVERAL: [(char, &str); 4] = [('≪', "<<"), ('⋘', "<<<"), ('≫', ">>"), ('⋙', ">>>")];

/// [`LOOKALIKES`] by character.
static BY_CHARACTER: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let all = LOOKALIKES.iter();
    let mut all: Vec<_> = all
        .flat_map(|(ascii, others)| others.chars().map(|other| (other, *ascii)))
        .collect();
    all.sort_unstable();
    all
});

/// Returns whether a character is not shown at all (Unicode's `Default_Ignorable_Code_Point`).
pub fn is_ignorable(c: char) -> bool {
    !c.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// A character that text may be read as, and the bytes of the text that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyph {
    /// What it may be taken for: ASCII, with capital letters only, where it looks like that; else the character itself.
    pub c: char,
    /// Where it begins in the text.
    pub from: usize,
    /// Where it ends in the text.
    pub to: usize,
}

/// Returns what a text may be read as. Marks that are written above, below and through other characters are left out, as
/// are characters that are not shown.
pub fn glyphs(text: &str) -> Vec<Glyph> {
    let mut all = Vec::with_capacity(text.len());
    for (from, c) in text.char_indices() {
        let to = from + c.len_utf8();
        let mut push = |c| all.push(Glyph { c, from, to });
        if c.is_ascii() {
            push(c.to_ascii_uppercase());
        } else if let Some((_, several)) = SEVERAL.iter().find(|(known, _)| *known == c) {
            several.chars().for_each(push);
        } else if let Some(ascii) = lookalike(c) {
            push(ascii);
        } else if !is_ignorable(c) {
            let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
            let parts = nfkd.normalize_iter(std::iter::once(c));
            for part in parts.filter(|part| !is_mark(*part)) {
                push(lookalike(part).unwrap_or(part.to_ascii_uppercase()));
            }
        }
    }
    all
}

fn is_mark(c: char) -> bool {
    GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

fn lookalike(c: char) -> Option<char> {
    // Emoji and flags of letters: white on black, in a square, in a pair that is a flag.
    let first = match u32::from(c) {
        0x1f150..=0x1f169 => 0x1f150,
        0x1f170..=0x1f189 => 0x1f170,
        0x1f1e6..=0x1f1ff => 0x1f1e6,
        _ => {
            let at = BY_CHARACTER.binary_search_by_key(&c, |(other, _)| *other);
            return at.ok().map(|at| BY_CHARACTER[at].1);
        }
    };
    char::from_u32(u32::from('A') + u32::from(c) - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        glyphs(text).iter().map(|glyph| glyph.c).collect()
    }

    #[test]
    fn reads_lookalikes_as_ascii() {
        for text in [
            "Ехternal",
            "𝓔𝔁𝓽𝓮𝓻𝓷𝓪𝓵",
            "ＥＸＴＥＲＮＡＬ",
            "ᴇxᴛᴇʀɴᴀʟ",
            "É̲xt\u{3164}ⓔrnal",
            "🅴🆇🆃🅴🆁🅽🅰🅻",
        ] {
            assert_eq!(read(text), "EXTERNAL", "{text}");
        }
        assert_eq!(read("⋘《｜▁日ﬆ"), "<<<<|▁日ST");
    }

    #[test]
    fn glyphs_tell_their_places() {
        let all = glyphs("é≪");
        let places: Vec<_> = all
            .iter()
            .map(|glyph| (glyph.c, glyph.from, glyph.to))
            .collect();
        assert_eq!(places, [('E', 0, 2), ('<', 2, 5), ('<', 2, 5)]);
    }

    #[test]
    fn ignorables_are_those_of_unicode() {
        for c in "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200d}\u{2065}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{1d173}\u{e0041}\u{e01ef}".chars() {
            assert!(is_ignorable(c), "{c:?}");
        }
        assert!(!"a \n日\u{301}😀".contains(is_ignorable));
    }

    #[test]
    fn knows_every_confusable_letter_of_unicode() {
        // Unicode says `f` and the decomposition `s`.
        const IN_DOUBT: &str = "ſẛ";
        // Bars are no letters here.
        const BARS: &str = "⏽│┃︱￨∣ǀ❘⎸⎹";
        let alike = |c: char| match c {
            'I' | '1' | '|' => 'L',
            '0' => 'O',
            c => c,
        };
        let all = ('\u{80}'..=char::MAX).filter(|c| !IN_DOUBT.contains(*c) && !BARS.contains(*c));
        let missing: Vec<_> = all
            .filter(|c| {
                let text = c.to_string();
                let to = unicode_security::confusable_detection::skeleton(&text);
                let to: String = to.filter(|c| !is_mark(*c)).collect();
                let letter = to.len() == 1 && to.as_bytes()[0].is_ascii_alphabetic();
                let alike = |text: &str| text.chars().map(alike).collect::<String>();
                letter && alike(&to.to_ascii_uppercase()) != alike(&read(&text))
            })
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
