//! Counts and cuts text. A character is a Unicode scalar value.

use base::text::first_chars;

pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the text in at most `count` characters; an ellipsis marks a cut.
pub(super) fn shortened(text: &str, count: usize) -> String {
    let cut = first_chars(text, count);
    if cut.len() == text.len() {
        return text.to_owned();
    }
    format!("{}…", first_chars(cut, count.saturating_sub(1)))
}

/// Divides `room` among `needed`: equal shares, except that a smaller want leaves the rest to the others.
pub(super) fn share_out(needed: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needed.len()).collect();
    order.sort_by_key(|&i| needed[i]);
    let mut share_out = vec![0; needed.len()];
    let mut remaining = room;
    for (done, &i) in order.iter().enumerate() {
        share_out[i] = needed[i].min(remaining / (order.len() - done));
        remaining -= share_out[i];
    }
    share_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_share_goes_to_the_others() {
        assert_eq!(share_out(&[100, 1, 100], 21), [10, 1, 10]);
        assert_eq!(share_out(&[3, 4], 100), [3, 4]);
        assert_eq!(share_out(&[], 100), Vec::<usize>::new());
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shortened("日本語", 2), "日…");
        assert_eq!(shortened("日本語", 3), "日本語");
    }
}
