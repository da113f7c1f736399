//! The behaviours that Tombolo shares with the peers, by their numbers: each is named by a test, or here with a reason.
//!
//! The numbers are those of the tables from which the tests were written. A test names a row in a case of its table, in
//! the text of an assertion, in the comment above it (`U13`), or in its own name (`u13_…`).

use std::ops::RangeInclusive;

use crate::tidy;

/// Letter, numbers, and the crate whose tests name them.
const ROWS: [(&str, RangeInclusive<u32>, &str); 31] = [
    ("S", 1..=11, "placement"),
    ("D", 1..=15, "placement"),
    ("M", 1..=11, "placement"),
    ("P", 1..=7, "placement"),
    ("Q", 1..=14, "placement"),
    ("N", 1..=7, "placement"),
    ("T", 1..=5, "placement"),
    ("F", 1..=9, "placement"),
    ("C", 1..=4, "placement"),
    ("R", 1..=6, "distribution"),
    ("L", 1..=6, "agent"),
    ("H", 1..=5, "controllers"),
    ("V", 1..=1, "controllers"),
    ("V", 2..=2, "distribution"),
    ("I", 1..=1, "agent"),
    ("K", 1..=2, "agent"),
    ("K", 3..=3, "controllers"),
    ("U", 1..=7, "api"),
    ("U", 8..=8, "hub"),
    ("U", 9..=9, "distribution"),
    ("U", 10..=12, "api"),
    ("U", 13..=13, "hub"),
    ("U", 14..=14, "apiserver"),
    ("U", 15..=15, "agent"),
    ("U", 16..=18, "hub"),
    ("O", 1..=8, "distribution"),
    ("O", 9..=10, "hub"),
    ("O", 11..=11, "deployer"),
    ("O", 12..=12, "machinery"),
    ("O", 13..=13, "hub"),
    ("O", 14..=14, "agent"),
];
/// Those that no test names, and why.
const UNTESTED: [(&str, &str); 5] = [
    ("Q11", "one loop owns the queue: nobody waits in it"),
    ("Q12", "one decision is one function: nothing is cut into chunks"),
    ("V1", "no parent that old is served"),
    ("U16", "charts are not executed"),
    ("O14", "charts are not executed"),
];

/// Rows that no test names, and exceptions that a test names after all.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let mut sources = Vec::new();
    for path in tidy::tracked()? {
        let of_a_crate = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        if let Some((folder, _)) = of_a_crate
            && path.ends_with(".rs")
            && let Ok(content) = std::fs::read_to_string(crate::shell::root().join(&path))
        {
            sources.push((folder.to_owned(), content));
        }
    }
    let mut problems = Vec::new();
    for (letter, numbers, home) in ROWS {
        for number in numbers {
            let row = format!("{letter}{number}");
            let tested = sources
                .iter()
                .any(|(folder, content)| folder == home && names(content, &row));
            let excused = UNTESTED.iter().find(|(untested, _)| *untested == row);
            match (tested, excused) {
                (true, None) | (false, Some(_)) => {}
                (false, None) => problems.push(format!("row {row}: no test of crates/{home} names it")),
                (true, Some(_)) => {
                    problems.push(format!(
                        "row {row}: a test of crates/{home} names it; take it out of UNTESTED"
                    ));
                }
            }
        }
    }
    Ok(problems)
}

/// Whether a source names a row: as a word, or at the beginning of a test's name.
fn names(content: &str, row: &str) -> bool {
    let mut words = content.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word == row) || content.contains(&format!("fn {}_", row.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_row_by_its_whole_name() {
        for (content, expected) in [
            ("(\"U1\", 3)", true),
            ("assert!(x, \"U3, U1\")", true),
            ("/// U1.", true),
            ("fn u1_works()", true),
            ("\"U11\"", false),
            ("fn u11_works()", false),
            ("let u1 = 1;", false),
        ] {
            assert_eq!(names(content, "U1"), expected, "{content}");
        }
    }
}
