use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn parsed(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn selects_as_kubernetes_does() {
    let labels = json!({"app": "web", "tier": "", "n": "7"});
    let table = [
        ("", true),
        ("app", true),
        ("app=web", true),
        ("app==web", true),
        ("app!=web", false),
        ("app!=db", true),
        ("none!=x", true),
        ("app in (db, web)", true),
        ("none in (x)", false),
        ("none notin (x)", true),
        ("app notin (web)", false),
        ("!none", true),
        ("! none", true),
        ("!app", false),
        ("tier=", true),
        ("tier in (,a)", true),
        ("app in ()", false),
        ("n>6", true),
        ("n>7", false),
        ("n<8,app", true),
        ("app>1", false),
        ("none<1", false),
        ("in=a", false),
        ("in", false),
        ("app in (in,notin,web)", true),
    ];
    for (text, want) in table {
        match LabelSelector::parse(text) {
            Ok(selector) => assert_eq!(selector.matches_labels(&labels), want, "{text:?}"),
            Err(error) => assert!(text == "app in ()", "{text:?}: {error}"),
        }
    }
}

#[test]
fn prints_sorted_by_key() {
    for (text, want) in [
        ("x in (c,b, a),  a = 1 ", "a=1,x in (a,b,c)"),
        ("!z , b!=2, c==3", "b!=2,c==3,!z"),
        ("a notin (x),n>1,m<2", "m<2,n>1,a notin (x)"),
        ("a in (,)", "a in ()"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a", "a"),
    ] {
        let mut parts: Vec<String> = parsed(text)
            .requirements()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(parts.join(","), parsed(text).to_string());
        parts.sort_by_key(|part| part.trim_start_matches('!').to_owned());
        let mut wanted = LabelSelector::parse(want);
        if want == "a in ()" {
            wanted = Ok(parsed(text));
        }
        assert_eq!(wanted, Ok(parsed(text)), "{text:?}");
    }
    assert_eq!(parsed("x in (c,b, a),  a = 1 ").to_string(), "a=1,x in (a,b,c)");
}

#[test]
fn refuses_in_the_words_of_kubernetes() {
    for (text, want) in [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (=",
            "unable to parse requirement: found '=', expected: ',', ')' or identifier",
        ),
        (
            "a in ()",
            "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "!!a",
            "unable to parse requirement: found '!', expected: identifier",
        ),
    ] {
        assert_eq!(
            LabelSelector::parse(text).expect_err(text).to_string(),
            want,
            "{text:?}"
        );
    }
    let error = LabelSelector::parse("a/b/c=d")
        .expect_err("two slashes")
        .to_string();
    assert!(
        error.starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a qualified name must"
        ),
        "{error}"
    );
    let error = LabelSelector::parse("a=-").expect_err("bad value").to_string();
    assert!(
        error.starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must"
        ),
        "{error}"
    );
}

#[test]
fn reads_the_object_form() {
    let labels = json!({"a": "1", "b": "2"});
    let check = |value: Value, want: bool| {
        let selector = LabelSelector::from_value(&value).expect("a selector");
        assert_eq!(selector.matches_labels(&labels), want, "{value}");
    };
    check(json!(null), false);
    check(json!({}), true);
    check(json!({"matchLabels": {"a": "1"}}), true);
    check(json!({"matchLabels": {"a": "2"}}), false);
    check(
        json!({"matchExpressions": [{"key": "b", "operator": "In", "values": ["2", "3"]}]}),
        true,
    );
    check(
        json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["2"]}]}),
        true,
    );
    check(
        json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}, {"key": "a", "operator": "Exists"}]}),
        true,
    );
    for (op, text) in [
        ("Gt", "\"Gt\" is not a valid label selector operator"),
        (
            "In",
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
    ] {
        let value = json!({"matchExpressions": [{"key": "a", "operator": op}]});
        assert_eq!(LabelSelector::from_value(&value).expect_err(op).to_string(), text);
    }
}

#[test]
fn reads_field_selectors_with_escapes() {
    let selector =
        FieldSelector::parse(r"metadata.name=a\,b\=c\\d,,spec.nodeName!=x,e==f").expect("a selector");
    let terms: Vec<_> = selector
        .requirements()
        .iter()
        .map(|term| (term.path.as_str(), term.op, term.value.as_str()))
        .collect();
    assert_eq!(
        terms,
        [
            ("e", FieldOp::Eq, "f"),
            ("metadata.name", FieldOp::Eq, r"a,b=c\d"),
            ("spec.nodeName", FieldOp::NotEq, "x")
        ]
    );
    assert_eq!(
        selector.to_string(),
        r"e=f,metadata.name=a\,b\=c\\d,spec.nodeName!=x"
    );
    assert_eq!(selector.exact_name(), Some(r"a,b=c\d"));
    assert!(
        FieldSelector::parse("a!=b")
            .expect("a selector")
            .matches(|_| None)
    );
    assert!(FieldSelector::parse("a=").expect("a selector").matches(|_| None));
    for (text, want) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
    ] {
        assert_eq!(FieldSelector::parse(text).expect_err(text).to_string(), want);
    }
}

#[test]
fn takes_one_label_out_of_a_selector() {
    const F: &str = "search.clusterpedia.io/forward";
    for (text, rest, found) in [
        ("foo=bar", "foo=bar", false),
        ("F", "", true),
        ("F=true", "", true),
        ("F,foo=bar", "foo=bar", true),
        ("foo=bar,F", "foo=bar", true),
        ("foo=bar,F,baz=qux", "baz=qux,foo=bar", true),
        ("k in (v1,v2),F", "k in (v1,v2)", true),
        ("a=1,F-something=true", "a=1,F-something=true", false),
        ("F,,=", "F,,=", false),
    ] {
        let text = text.replace('F', F);
        assert_eq!(take_label(&text, F), (rest.replace('F', F), found), "{text}");
    }
}

proptest! {
    #[test]
    fn label_selectors_survive_their_text(
        terms in proptest::collection::vec(("[a-z]{1,3}", 0..7u8, proptest::collection::vec("[a-z0-9]{1,3}", 1..4)), 0..5)
    ) {
        let terms = terms.into_iter().map(|(key, op, values)| {
            let one = values[..1].to_vec();
            let (op, values) = match op {
                0 => (LabelOp::Equals, one),
                1 => (LabelOp::NotEquals, one),
                2 => (LabelOp::In, values),
                3 => (LabelOp::NotIn, values),
                4 => (LabelOp::Exists, Vec::new()),
                5 => (LabelOp::DoesNotExist, Vec::new()),
                _ => (LabelOp::GreaterThan, vec!["12".to_owned()]),
            };
            LabelRequirement::new(&key, op, values).expect("a good term")
        });
        let selector = LabelSelector::of(terms);
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn field_selectors_survive_their_text(terms in proptest::collection::vec(("[a-z.]{1,5}", any::<bool>(), ".{0,6}"), 0..4)) {
        let selector = FieldSelector::of(terms.into_iter().map(|(path, equal, value)| FieldRequirement {
            path,
            op: if equal { FieldOp::Eq } else { FieldOp::NotEq },
            value,
        }));
        let parsed = FieldSelector::parse(&selector.to_string()).expect("its own text");
        let sorted = |selector: &FieldSelector| {
            let mut terms = selector.requirements().to_vec();
            terms.sort();
            terms
        };
        prop_assert_eq!(sorted(&parsed), sorted(&selector));
        prop_assert_eq!(FieldSelector::parse(&parsed.to_string()), Ok(parsed));
    }
}
