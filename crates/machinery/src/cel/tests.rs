use serde_json::json;

use super::*;

fn run(text: &str) -> Result<Value, CelError> {
    let this = json!({
        "n": 3, "f": 1.5, "name": "web-1", "list": [1, 2, 3], "empty": [], "map": {"a": 1, "b": 2},
        "items": [{"k": "a", "v": 1}, {"k": "b"}], "x-y": 1, "namespace": "ns"
    });
    let old = json!({"n": 2});
    Program::parse(text)?.evaluate(&[("self", &this), ("oldSelf", &old)])
}

#[test]
fn evaluates_what_rules_say() {
    for (text, want) in [
        ("1 + 2 * 3 == 7", json!(true)),
        ("(1 + 2) * 3", json!(9)),
        ("-2 - -3", json!(1)),
        ("7 / 2", json!(3)),
        ("7.0 / 2", json!(3.5)),
        ("7 % 4", json!(3)),
        ("self.n > oldSelf.n", json!(true)),
        ("self.n >= 3 && self.f < 2", json!(true)),
        ("has(self.n) && !has(self.nope)", json!(true)),
        ("!has(oldSelf.name) || has(self.name)", json!(true)),
        (
            "self.name.startsWith('web') && self.name.endsWith(\"1\")",
            json!(true),
        ),
        ("self.name.matches('^[a-z]+-\\\\d$')", json!(true)),
        (r"self.name.matches(r'^[a-z]+-\d$')", json!(true)),
        ("size(self.list) == 3 && self.list.size() == 3", json!(true)),
        (
            "2 in self.list && !('x' in self.map) && 'a' in self.map",
            json!(true),
        ),
        ("self.list.all(x, x > 0)", json!(true)),
        (
            "self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2)",
            json!(true),
        ),
        ("self.list.filter(x, x > 1).map(x, x * 2)", json!([4, 6])),
        ("self.map.all(k, self.map[k] > 0)", json!(true)),
        ("self.items.all(i, !has(i.v) || i.v == 1)", json!(true)),
        ("self.items.map(i, has(i.v), i.k)", json!(["a"])),
        ("self.list[1]", json!(2)),
        ("self.nope == 1 || true", json!(true)),
        ("true || self.nope == 1", json!(true)),
        ("false && self.nope == 1", json!(false)),
        ("self.n > 2 ? 'big' : 'small'", json!("big")),
        ("self.x__dash__y == 1 && self.__namespace__ == 'ns'", json!(true)),
        ("[1, 2] + [3] == self.list", json!(true)),
        ("{'a': 1}.a", json!(1)),
        (
            "self.list.sum() == 6 && self.list.max() == 3 && self.list.isSorted()",
            json!(true),
        ),
        ("'a,b'.split(',').join('-')", json!("a-b")),
        ("'hello'.substring(1, 3) + string(1)", json!("el1")),
        (
            "self.empty.all(x, false) && !self.empty.exists(x, true)",
            json!(true),
        ),
        ("1 == 1.0 // a comment", json!(true)),
    ] {
        assert_eq!(run(text), Ok(want), "{text}");
    }
}

#[test]
fn says_what_is_wrong() {
    for text in [
        "",
        "1 +",
        "has(1)",
        "self.",
        "a b",
        "'x",
        "self.list.all(1, true)",
        "#",
        "[1",
        "{1}",
    ] {
        assert!(matches!(run(text), Err(CelError::Syntax(_))), "{text}");
    }
    for (text, want) in [
        ("self.nope", "no such key: nope"),
        ("nobody", "undeclared reference to 'nobody'"),
        ("1 / 0", "division by zero"),
        ("'a' + 1", "no such overload: string and int"),
        ("self.list[9]", "no such key: 9"),
        ("duration('1h')", "no such function: duration"),
    ] {
        assert_eq!(
            run(text).map_err(|error| error.to_string()),
            Err(want.to_owned()),
            "{text}"
        );
    }
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(Program::parse(&deep).is_err());
    let slow = "self.list.map(a, self.list.map(b, self.list.map(c, self.list.map(d, self.list.map(e, self.list.map(f, self.list.map(g, self.list.map(h, self.list.map(i, self.list.map(j, self.list.map(k, self.list.map(l, self.list.map(m, 1)))))))))))))";
    assert_eq!(run(slow), Err(CelError::TooExpensive));
}
