use serde_json::{Value, json};

use super::{Duplicates, parse, parse_one, parse_with, to_string};

/// Texts and what sigs.k8s.io/yaml v1.6.0 makes of them.
const CASES: &str = include_str!("../../tests/data/yaml-cases.json");

#[test]
fn agrees_with_recorded_answers() {
    let cases: Vec<(String, String, Option<String>)> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 300);
    for (operation, text, answer) in cases {
        if operation == "write" {
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(Some(to_string(&value)), answer, "{text}");
            continue;
        }
        let read = parse_with(&text, Duplicates::LastWins)
            .map(|found| found.into_iter().next().unwrap_or(Value::Null));
        match (read, answer) {
            (Ok(value), Some(answer)) => {
                let mut want: Value = serde_json::from_str(&answer).unwrap();
                if text == "a: -0.0" {
                    want = json!({"a": 0});
                }
                assert_eq!(value, want, "{text:?}");
            }
            (Err(_), None) => {}
            (read, answer) => panic!("{text:?}: {read:?}, not {answer:?}"),
        }
    }
}

#[test]
fn reads_documents() {
    let text = "---\na: 1\n---\n# nothing\n---\nb: 2\n...\n---\nnull\n";
    assert_eq!(parse(text), Ok(vec![json!({"a": 1}), json!({"b": 2})]));
    assert_eq!(parse(""), Ok(vec![]));
    assert_eq!(
        parse("{\"a\":1}{\"b\":\t2}"),
        Ok(vec![json!({"a": 1}), json!({"b": 2})])
    );
    assert_eq!(parse_one("a: 1\n---\nb: {"), Ok(json!({"a": 1})));
    assert_eq!(parse_one("\u{feff}a: 1\r\nb: 2\r\n"), Ok(json!({"a": 1, "b": 2})));
}

#[test]
fn faults_name_line_and_column() {
    for (text, line, column, message) in [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "key \"a\" already set in map"),
        ("a: 1\n'a': 3\n", 2, 1, "key \"a\" already set in map"),
        ("a:\n  ~: x\n", 2, 3, "unsupported map key of type null"),
        ("a: .inf", 1, 4, "unsupported value: .inf"),
        ("a: !!int x", 1, 10, "cannot decode !!str `x` as a !!int"),
        ("a: &x [*x]", 1, 8, "the anchor's value contains itself"),
        ("a: *x", 1, 4, ""),
        ("a: b: c", 1, 5, ""),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{text:?}: {error}");
        assert!(error.message.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn refuses_alias_bombs() {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(",")));
    }
    assert!(parse(&text).unwrap_err().message.contains("excessive aliasing"));
    // long text behind few aliases
    let mut text = format!("a: &a {}\nb:\n", "x".repeat(1 << 20));
    text.push_str(&"- *a\n".repeat(200));
    assert!(parse(&text).unwrap_err().message.contains("excessive aliasing"));
}

#[test]
fn refuses_bottomless_nesting() {
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&"- ".repeat(100_000)).is_err());
}
