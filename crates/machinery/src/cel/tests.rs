use serde_json::json;

use super::*;

fn run(text: &str) -> Result<Value, CelError> {
    run_on(text, &usual(), &json!({"n": 2}))
}

fn run_on(text: &str, this: &Value, old: &Value) -> Result<Value, CelError> {
    let variables = [("self", Given::Value(this)), ("oldSelf", Given::Value(old))];
    Program::parse(text)?.evaluate(&variables, None, &mut Budget::default())
}

fn usual() -> Value {
    json!({
        "n": 3, "f": 1.5, "name": "web-1", "list": [1, 2, 3], "empty": [], "map": {"a": 1, "b": 2},
        "items": [{"k": "a", "v": 1}, {"k": "b"}], "x-y": 1, "namespace": "ns"
    })
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
        ("[1, 'a'].sort()", "list elements must have the same type"),
        ("[[1]].sort()", "list elements must be comparable"),
        (
            "[1].slice(-1, 0)",
            "cannot slice(-1, 0), negative indexes not supported",
        ),
        (
            "[1].slice(1, 0)",
            "cannot slice(1, 0), start index must be less than or equal to end index",
        ),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[1].flatten(-1)", "level must be non-negative"),
        (
            "timestamp(0).getHours('99999999:00')",
            "unknown time zone 99999999:00",
        ),
        (
            "timestamp(0).getHours('00:2000000000')",
            "unknown time zone 00:2000000000",
        ),
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
        "duration('1h30m') > duration('5399s')",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90",
        "duration('1s5ms').getMilliseconds() == 1005 && int(duration('1s')) == 1000000000",
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
        "format.dns1123Label().validate('a_b').hasValue()",
        "format.named('uuid').value().validate('x').hasValue()",
        "!format.dns1123Label().validate('ok').hasValue() && !format.named('nope').hasValue()",
        "optional.of(1).orValue(2) == 1 && optional.none().orValue(2) == 2 && self.?nope.orValue('d') == 'd'",
        "self.?n.optMap(v, v + 1) == optional.of(4) && !self.map[?'zz'].hasValue() && self.?map.?a.orValue(0) == 1",
        "self.list.all(i, v, v == i + 1) && self.map.exists(k, v, k == 'b' && v == 2)",
        "type(1) == int && type('x') == string && int('7') + int(2.9) == 9 && double('1.5') == 1.5 && uint(3) == 3",
        "'a' < 'b' && [1, 2] == [1, 2] && {'a': 1} == {'a': 1.0} && bool('true')",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [].sort() == []",
        "[2.5, -1.0].sort() == [-1.0, 2.5] && [duration('2s'), duration('1s')].sort()[0] == duration('1s')",
        "self.items.sortBy(i, i.k == 'a').map(i, i.k) == ['b', 'a'] && [3, -2].sortBy(i, i * i) == [-2, 3]",
        "[1, 2, 2, 1, 3].distinct() == [1, 2, 3] && ['b', 'b', 'a'].distinct() == ['b', 'a']",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == [] && [5, 3].reverse() == [3, 5]",
        "lists.range(3) == [0, 1, 2] && lists.range(-1) == [] && lists.range(0) == []",
        "[1, [2, [3, [4]]]].flatten() == [1, 2, [3, [4]]] && [1, [2, [3, [4]]]].flatten(2) == [1, 2, 3, [4]]",
        "[[1]].flatten(0) == [[1]] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "!self.empty.first().hasValue() && optional.unwrap([optional.of(1), optional.none()]) == [1]",
        "[optional.none(), optional.of(2)].unwrapOpt() == [2]",
        "semver('v1.0', true) == semver('1.0.0') && semver('01.01.01', true).minor() == 1 && isSemver('v1', true)",
        "!isSemver('v1.0.0') && !isSemver('v1.0.0', false) && !isSemver('1.0-a', true) && isSemver('1.0.0-a', true)",
        "semver('1.00.0', true) == semver('1.0.0') && isSemver('1.2.03-rc.1', true)",
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
        let answer = Program::parse(text)
            .and_then(|program| program.evaluate(&variables, Some(&schema), &mut Budget::default()));
        assert_eq!(answer, Ok(json!(true)), "{text}");
    }
}

/// What the checker says of rules, if anything.
fn check_all(rules: &[(&str, Option<&str>)]) {
    let schema = cron();
    let scope = Scope {
        schema: &schema,
        is_root: true,
        variables: &["self", "oldSelf"],
        optional: &[],
    };
    for (text, want) in rules {
        let found = Program::parse(text).unwrap().problem(&scope, "bool");
        assert_eq!(found.as_deref(), *want, "{text}");
    }
}

#[test]
fn finds_what_cannot_be_before_there_are_values() {
    check_all(&[
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
    ]);
}

#[test]
fn checks_later_functions_too() {
    check_all(&[
        (
            "self.words.sort() == self.words.distinct() && self.words.slice(0, 1).all(w, w != '')",
            None,
        ),
        (
            "self.list.sortBy(x, x.k)[0].k == '' && lists.range(3).reverse().all(i, i < self.n)",
            None,
        ),
        (
            "[1, [2]].flatten(1).size() == 2 && self.words.first().hasValue() && self.words.last() == optional.of('')",
            None,
        ),
        (
            "semver(self.name, true).major() == 1 && isSemver(self.name, self.b) && int(self.every) > 1",
            None,
        ),
        ("self.list.sortBy(x, x.z)[0].k == ''", Some("undefined field 'z'")),
        (
            "self.name.sort() == ''",
            Some("found no matching overload for 'sort' applied to '(string)'"),
        ),
    ]);
}

/// Trees of an expression that are as deep as allowed, or `more` levels deeper, by every way there is.
fn towers(more: usize) -> Vec<String> {
    let deep = 249 + more;
    let end = |end: &str| format!("[1]{}", end.repeat(deep));
    // brackets may nest less deep
    let calls = (0..23).fold("1".to_owned(), |inner, _| {
        format!("size([{inner}]{})", " + [2]".repeat(8))
    });
    let loops = format!("{}true{}", "[1].all(a, ".repeat(47), ")".repeat(47));
    let choices = format!("{}1", "true ? 1 : ".repeat(47));
    vec![
        format!("1{}", " + 1".repeat(deep)),
        format!("1{}", " - 1 * 2".repeat(deep - 1)),
        format!("1{}", " == 1".repeat(deep)),
        format!("{}true", "!".repeat(deep)),
        format!("{}1", "- ".repeat(deep)),
        format!("self{}", ".n".repeat(deep)),
        format!("self{}", ".?n".repeat(deep)),
        format!("self.list{}", "[0]".repeat(deep - 1)),
        end(".map(a, a)").replacen(".map(a, a)", "", 1),
        end(".filter(a, true)").replacen(".filter(a, true)", "", 1),
        end(".reverse()").replacen(".reverse()", "", 1),
        end(".map(a, [a])").replacen(".map(a, [a])", "", 2),
        calls,
        loops,
        choices,
    ]
}

/// All that walks over an expression.
fn exercise(text: &str) {
    let schema = cron();
    let scope = Scope {
        schema: &schema,
        is_root: true,
        variables: &["self"],
        optional: &[],
    };
    let Ok(program) = Program::parse(text) else { return };
    let copy = program.clone();
    drop(program.problem(&scope, "bool"));
    assert!(!program.mentions("nobody"));
    drop(run(text));
    drop((format!("{program:?}"), program, copy));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a thread is how a test gets a stack of its size"
)]
fn trees_of_any_depth_fit_a_small_stack() {
    let hostile = |levels: usize, chain: usize| {
        (0..levels).fold("1".to_owned(), |inner, _| {
            format!("({inner}{})", "+1".repeat(chain))
        })
    };
    // half of what a thread that serves requests has
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let run = small.spawn(move || {
        for text in towers(0) {
            assert!(Program::parse(&text).is_ok(), "{text}");
            exercise(&text);
        }
        for text in towers(1).into_iter().take(11) {
            assert!(Program::parse(&text).is_err(), "{text}");
        }
        for text in [hostile(46, 250), hostile(20, 150), hostile(20, 12)] {
            exercise(&text);
        }
        let error = Program::parse(&hostile(46, 250)).map(|_| ());
        let want = "expression recursion limit exceeded: 250".to_owned();
        assert_eq!(error, Err(CelError::Syntax(want)));
    });
    run.expect("a thread").join().expect("no overflow");
}

#[test]
fn long_chains_that_decide_are_no_deep_trees() {
    for (sign, last, want) in [
        ("||", "self.n == 3", true),
        ("&&", "self.n == 3", false),
        ("||", "false", false),
    ] {
        let chain = format!("self.n == 0 {sign} ").repeat(1_000) + last;
        assert_eq!(run(&chain), Ok(json!(want)), "{sign} {last}");
    }
    // a side that decides makes up for errors on both of its sides
    assert_eq!(
        run("self.x || self.y || true || self.z || self.a"),
        Ok(json!(true))
    );
    assert_eq!(
        run("self.x && self.y && true && self.z && false"),
        Ok(json!(false))
    );
    assert_eq!(
        run("self.x || self.y || false").map_err(|error| error.to_string()),
        Err("no such key: x".to_owned())
    );
}

#[test]
fn pays_for_what_is_made_before_it_is_made() {
    let wide = "x".repeat(1_500_000);
    let empties = vec![""; 400_000];
    let this = json!({"wide": wide, "empties": empties, "verbs": "%f%f".repeat(20_000), "query": format!("/?{}", "a&".repeat(400_000))});
    let long = || CelError::Evaluate("a text may not be longer than 4194304 bytes".to_owned());
    let doubled = format!("[[1]]{}", ".map(a, [a, a])".repeat(60));
    for (text, want) in [
        ("self.empties.join(self.wide)", long()),
        ("self.wide.replace('', self.wide)", long()),
        ("self.wide.replace('x', self.wide, 1000000)", long()),
        ("'%s%s%s'.format([self.wide, self.wide, self.wide])", long()),
        ("self.verbs.format(lists.range(40000).map(e, 1e300))", long()),
        ("self.wide + self.wide + self.wide", long()),
        ("string(self.empties)", long()),
        ("strings.quote(self.wide.replace('x', '\\x00'))", long()),
        ("self.wide.split('')", CelError::TooExpensive),
        ("self.wide.findAll('x')", CelError::TooExpensive),
        ("lists.range(1000000000000)", CelError::TooExpensive),
        ("self.empties.distinct()", CelError::TooExpensive),
        (
            "[self.empties].map(a, a + a).map(a, a + a)",
            CelError::TooExpensive,
        ),
        ("url(self.query).getQuery()", CelError::TooExpensive),
        (
            "self.empties.all(a, self.empties.all(b, true))",
            CelError::TooExpensive,
        ),
        (&format!("{doubled} == [1]"), CelError::TooExpensive),
        (&doubled, CelError::TooExpensive),
        (&format!("'%s'.format([{doubled}])"), CelError::TooExpensive),
        (&format!("{{'a': 1}}[{doubled}] == 1"), CelError::TooExpensive),
        (
            &format!("optional.of({doubled}) == optional.of(1)"),
            CelError::TooExpensive,
        ),
        (&format!("{{{doubled}: 1}} == {{1: 1}}"), CelError::TooExpensive),
        (
            "self.empties.exists(a, self.empties.exists(b, a != b)) || true",
            CelError::TooExpensive,
        ),
    ] {
        assert_eq!(run_on(text, &this, &this), Err(want), "{text:.99}");
    }
    for (text, want) in [
        ("self.empties.join(',').size()", json!(399_999)),
        ("self.wide.replace('x', 'yz').size()", json!(3_000_000)),
        ("(self.wide + self.wide).size()", json!(3_000_000)),
        (
            "self.empties.size() + self.empties.slice(0, 1000).sort().size()",
            json!(401_000),
        ),
        ("self.wide.split('y').size()", json!(1)),
    ] {
        assert_eq!(run_on(text, &this, &this), Ok(want), "{text}");
    }
}

#[test]
fn compares_large_maps_by_their_keys() {
    let large: serde_json::Map<String, Value> =
        (0..100_000).map(|key| (format!("k{key}"), json!(key))).collect();
    let large = Value::Object(large);
    assert_eq!(
        run_on("self == oldSelf && 'k1' in self", &large, &large),
        Ok(json!(true))
    );
}

#[test]
fn compiles_a_pattern_once() {
    let texts: Vec<String> = (0..500).map(|at| format!("a{at}")).collect();
    let this = json!({"texts": texts, "pattern": "^a[0-9]+$"});
    for (text, want) in [
        ("self.texts.all(t, t.matches('^a[0-9]+$'))", Ok(json!(true))),
        ("self.texts.all(t, matches(t, '^a[0-9]+$'))", Ok(json!(true))),
        (
            "self.texts.all(t, t.find('[0-9]+') == t.findAll('[0-9]+')[0])",
            Ok(json!(true)),
        ),
        ("self.texts.all(t, t.matches(self.pattern))", Ok(json!(true))),
        ("self.texts.all(t, t.matches(t))", Err(CelError::TooExpensive)),
    ] {
        assert_eq!(run_on(text, &this, &this), want, "{text}");
    }
    assert!(run("'a'.matches('(')").is_err_and(|error| error.to_string().starts_with("bad pattern: ")));
}

#[test]
fn one_budget_is_for_all_evaluations() {
    let this = json!({"wide": "x".repeat(3_000_000)});
    let program = Program::parse("self.wide == self.wide && self.wide == self.wide").unwrap();
    let variables = [("self", Given::Value(&this))];
    let mut budget = Budget::default();
    let mut evaluate = || program.evaluate(&variables, None, &mut budget);
    let good = (0..100).take_while(|_| evaluate() == Ok(json!(true))).count();
    assert!((40..60).contains(&good), "{good}");
    assert_eq!(evaluate(), Err(CelError::OutOfBudget));
    assert!(budget.is_spent());
}

#[test]
fn checker_and_evaluation_know_the_same_types() {
    let schema = cron();
    let scope = Scope {
        schema: &schema,
        is_root: true,
        variables: &["self"],
        optional: &[],
    };
    for (value, name) in [
        ("true", "bool"),
        ("1", "int"),
        ("uint(1)", "uint"),
        ("1.5", "double"),
        ("'a'", "string"),
        ("[1]", "list"),
        ("{'a': 1}", "map"),
        ("null", "null_type"),
        ("int", "type"),
        ("duration('1s')", "google.protobuf.Duration"),
        ("timestamp(0)", "google.protobuf.Timestamp"),
        ("format.uuid()", "kubernetes.NamedFormat"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("semver('1.0.0')", "kubernetes.Semver"),
        ("url('/a')", "kubernetes.URL"),
        ("cidr('::/0')", "net.CIDR"),
        ("ip('::1')", "net.IP"),
        ("optional.of(1)", "optional_type"),
    ] {
        for text in [
            format!("type({value}) == {name}"),
            format!("type({value}) != bytes"),
        ] {
            assert_eq!(
                Program::parse(&text).unwrap().problem(&scope, "bool"),
                None,
                "{text}"
            );
            assert_eq!(run(&text), Ok(json!(true)), "{text}");
        }
    }
    let found = Program::parse("type(1) == google.protobuf.Any")
        .unwrap()
        .problem(&scope, "bool");
    assert_eq!(
        found.as_deref(),
        Some("undeclared reference to 'google' (in container '')")
    );
}
