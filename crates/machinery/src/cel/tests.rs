use serde_json::json;

use super::*;

fn run(text: &str) -> Result<Value, CelError> {
    let this = json!({
        "n": 3, "f": 1.5, "name": "web-1", "list": [1, 2, 3], "empty": [], "map": {"a": 1, "b": 2},
        "items": [{"k": "a", "v": 1}, {"k": "b"}], "x-y": 1, "namespace": "ns"
    });
    let old = json!({"n": 2});
    let variables = [("self", Given::Value(&this)), ("oldSelf", Given::Value(&old))];
    Program::parse(text)?.evaluate(&variables, None)
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
        (
            "duration('1x')",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("[].max()", "max called on empty list"),
        (
            "'abc'.substring(2, 1)",
            "invalid substring range. start: 2, end: 1",
        ),
        ("optional.none().value()", "optional.none() dereference"),
        ("b64(1)", "no such overload: b64(int)"),
        ("bytes('a')", "no such function: bytes"),
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

#[test]
fn knows_kubernetes_functions() {
    for text in [
        "duration('1h30m') > duration('5399s') && duration('1m') * 1 == duration('1m') || true",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90",
        "timestamp('2024-02-29T12:30:05.25Z').getFullYear() == 2024",
        "timestamp('2024-02-29T12:30:05.25Z').getMonth() == 1 && timestamp('2024-02-29T00:00:00Z').getDate() == 29",
        "timestamp('2024-02-29T12:30:05.25Z').getDayOfWeek() == 4 && timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59",
        "timestamp('2024-02-29T12:30:05.25Z').getMilliseconds() == 250",
        "timestamp('2024-02-29T12:30:05Z').getHours('-08:00') == 4 && timestamp(0) < timestamp(1)",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "string(duration('90m')) == '5400s' && string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z'",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').add(quantity('0.5')) == quantity('1')",
        "quantity('50k').asInteger() == 50000 && !quantity('50m').isInteger() && quantity('-1').sign() == -1",
        "quantity('1').compareTo(quantity('2')) == -1 && quantity('3').sub(1).asApproximateFloat() == 2.0",
        "isQuantity('1Ki') && !isQuantity('1 Ki')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2 && !isSemver('v1')",
        "url('https://example.com:80/a%20b?k=1&k=2').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://a/b?k=1&k=x%20y').getQuery()['k'] == ['1', 'x y'] && url('/p?q').getEscapedPath() == '/p'",
        "isURL('https://a') && !isURL('../a') && url('https://a').getScheme() == 'https'",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && !isIP('1.2.3.04') && !isIP('::ffff:1.2.3.4')",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast() && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && isCIDR('::/128')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && !isCIDR('10.0.0.0/33') && string(ip('::1')) == '::1'",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1, 2], [2, 1]) && !sets.intersects([1], [2])",
        "'abc 123 d4'.find('[0-9]+') == '123' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'a1b22'.findAll('[0-9]', 2) == ['1', '2'] && 'none'.find('[0-9]') == ''",
        "[3, 1, 2].max() == 3 && ['b', 'a'].min() == 'a' && [1.5, 2.5].sum() == 4.0 && ![2, 1].isSorted()",
        "[duration('1s'), duration('2s')].sum() == duration('3s') && [1, 2, 1].lastIndexOf(1) == 2",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.charAt(1) == 'b' && 'aXbX'.replace('X', 'y', 1) == 'aybX'",
        "'hello'.indexOf('l', 3) == 3 && 'hello'.lastIndexOf('l', 2) == 2 && 'a'.upperAscii() == 'A'",
        "'%s is %d or %.1f'.format(['x', 7, 2.25]) == 'x is 7 or 2.2' && '100%%'.format([]) == '100%'",
        "format.dns1123Label().validate('a_b').hasValue() && !format.named('uuid').value().validate('x').hasValue() || true",
        "!format.dns1123Label().validate('ok').hasValue() && !format.named('nope').hasValue()",
        "optional.of(1).orValue(2) == 1 && optional.none().orValue(2) == 2 && self.?nope.orValue('d') == 'd'",
        "self.?n.optMap(v, v + 1) == optional.of(4) && !self.map[?'zz'].hasValue() && self.?map.?a.orValue(0) == 1",
        "self.list.all(i, v, v == i + 1) && self.map.exists(k, v, k == 'b' && v == 2)",
        "type(1) == int && type('x') == string && int('7') + int(2.9) == 9 && double('1.5') == 1.5 && uint(3) == 3",
        "'a' < 'b' && [1, 2] == [1, 2] && {'a': 1} == {'a': 1.0} && bool('true')",
    ] {
        assert_eq!(run(text), Ok(json!(true)), "{text}");
    }
}

fn cron() -> Schema {
    Schema::from_openapi(&json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "f": {"type": "number"}, "name": {"type": "string"}, "b": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"}, "every": {"type": "string", "format": "duration"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "words": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"x-kubernetes-preserve-unknown-fields": true}, "port": {"x-kubernetes-int-or-string": true},
        "inner": {"type": "object", "properties": {"a": {"type": "string"}}}}}))
    .expect("a schema")
}

#[test]
fn reads_texts_of_a_format_as_what_they_stand_for() {
    let schema = cron();
    let this = json!({"at": "2024-01-01T00:00:00Z", "every": "90s", "f": 1, "n": 2});
    for text in [
        "self.at < timestamp('2024-01-02T00:00:00Z') && self.at.getFullYear() == 2024",
        "self.every == duration('1m30s') && type(self.f) == double && type(self.n) == int",
    ] {
        let variables = [("self", Given::Value(&this))];
        let answer = Program::parse(text).and_then(|program| program.evaluate(&variables, Some(&schema)));
        assert_eq!(answer, Ok(json!(true)), "{text}");
    }
}

#[test]
fn finds_what_cannot_be_before_there_are_values() {
    let schema = cron();
    let scope = Scope {
        schema: &schema,
        is_root: true,
        variables: &["self", "oldSelf"],
        optional: &[],
    };
    for (text, want) in [
        ("self.n > 1 && self.name.startsWith('a') || self.b", None),
        ("self.metadata.name == self.name && self.kind != ''", None),
        (
            "self.list.all(x, x.k != '') && self.words.exists(w, w == 'a')",
            None,
        ),
        (
            "self.map.all(k, self.map[k] > 0) && 'a' in self.map && 'x' in self.words",
            None,
        ),
        (
            "self.any.whatever == 3 && self.port == 80 && self.port == 'http'",
            None,
        ),
        (
            "self.at < timestamp('2024-01-01T00:00:00Z') && self.every > duration('1s')",
            None,
        ),
        ("!has(oldSelf.n) || self.n >= oldSelf.n", None),
        (
            "self.list.map(x, x.k).all(k, size(k) < 3) && self.words.isSorted()",
            None,
        ),
        (
            "self.words.max() == 'z' && quantity(self.name).isLessThan(quantity('1'))",
            None,
        ),
        (
            "self.words == [] && self.?name.orValue('') == '' && self.f > 1 && self.n == int(self.f)",
            None,
        ),
        ("bytes(self.name) == 3", None),
        ("self.nme == ''", Some("undefined field 'nme'")),
        ("self.inner.b == ''", Some("undefined field 'b'")),
        ("has(self.inner.b)", Some("undefined field 'b'")),
        ("self.list.all(x, x.z == '')", Some("undefined field 'z'")),
        (
            "slf.n > 1",
            Some("undeclared reference to 'slf' (in container '')"),
        ),
        (
            "isGood(self.n)",
            Some("undeclared reference to 'isGood' (in container '')"),
        ),
        ("self.n", Some("must evaluate to a bool")),
        ("'x'", Some("must evaluate to a bool")),
        (
            "self.n == 'a'",
            Some("found no matching overload for '_==_' applied to '(int, string)'"),
        ),
        (
            "self.name > 1",
            Some("found no matching overload for '_>_' applied to '(string, int)'"),
        ),
        (
            "self.n.startsWith('a')",
            Some("found no matching overload for 'startsWith' applied to '(int, string)'"),
        ),
        (
            "self.n && true",
            Some("found no matching overload for '_&&_' applied to '(int, bool)'"),
        ),
        (
            "self.n.all(x, true)",
            Some(
                "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
            ),
        ),
        (
            "self.name.x == 1",
            Some("type 'string' does not support field selection"),
        ),
        (
            "self.list.all(x, x.k)",
            Some("found no matching overload for '_&&_' applied to '(bool, string)'"),
        ),
    ] {
        let found = Program::parse(text).unwrap().problem(&scope, "bool");
        assert_eq!(found.as_deref(), want, "{text}");
    }
}
