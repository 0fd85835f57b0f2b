//! Pages of lists in the Agent Protocol.

use http::request::Parts;
use serde_json::{Value, json};

use super::invalid_input;
use crate::http::error::Failure;

/// The default number of items on a page.
const DEFAULT_PAGE_SIZE: usize = 10;

/// The maximum number of items on a page.
const MAX_PAGE_SIZE: usize = 100;

/// The page that a query requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageQuery {
    number: usize,
    size: usize,
}

impl PageQuery {
    /// Reads `current_page` and `page_size`.
    ///
    /// # Errors
    /// One of them is not a number or out of range.
    pub(super) fn parse(parts: &Parts) -> Result<Self, Failure> {
        let mut query = Self {
            number: 1,
            size: DEFAULT_PAGE_SIZE,
        };
        let text = parts.uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let number = value.parse::<usize>().ok().filter(|number| *number > 0);
            match name.as_ref() {
                "current_page" => {
                    let reason = "`current_page` must be 1 or more";
                    query.number = number.ok_or_else(|| invalid_input("current_page", reason))?;
                }
                "page_size" => {
                    let number = number.filter(|size| *size <= MAX_PAGE_SIZE);
                    let reason = format!("`page_size` must be 1 to {MAX_PAGE_SIZE}");
                    query.size = number.ok_or_else(|| invalid_input("page_size", reason))?;
                }
                _ => {}
            }
        }
        Ok(query)
    }

    /// Returns the `items` on the page.
    pub(super) fn items<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let before = (self.number - 1).saturating_mul(self.size);
        let rest = items.get(before..).unwrap_or_default();
        rest.get(..self.size).unwrap_or(rest)
    }

    /// Returns the page as JSON: the items `shown` under `name`, and `total` as the number of all items.
    pub(super) fn page(&self, name: &str, shown: Vec<Value>, total: usize) -> Value {
        json!({
            name: shown,
            "pagination": {
                "total_items": total,
                "total_pages": total.div_ceil(self.size),
                "current_page": self.number,
                "page_size": self.size,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(query: &str) -> Result<PageQuery, Failure> {
        let request = http::Request::get(format!("/ap/v1/agent/tasks?{query}"));
        PageQuery::parse(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn page_has_its_items_and_the_totals() {
        let page = parse("page_size=2&current_page=2").unwrap();
        let items = page.items(&[1, 2, 3]);
        let shown = page.page("tasks", items.iter().map(|item| json!(item)).collect(), 3);
        let pagination =
            json!({"total_items": 3, "total_pages": 2, "current_page": 2, "page_size": 2});
        assert_eq!(shown, json!({"tasks": [3], "pagination": pagination}));
    }

    #[test]
    fn page_after_the_last_is_empty() {
        let page = parse("current_page=18446744073709551615").unwrap();
        assert!(page.items(&[1]).is_empty());
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        for query in [
            "page_size=0",
            "page_size=101",
            "current_page=-1",
            "page_size=x",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }
}
