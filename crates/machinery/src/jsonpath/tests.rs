use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "annotations": {"a.b/c": "dotted"}, "n": {"x": "nested"}},
        "spec": {"containers": [{"name": "a", "image": "i1", "port": 1}, {"name": "b", "image": "i2", "port": 2}, {"name": "c"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}], "ok": true, "none": []}
    })
}

#[test]
fn finds_what_kubectl_finds() {
    let pod = pod();
    for (path, want) in [
        (".metadata.name", json!(["web"])),
        ("metadata.name", json!(["web"])),
        ("{.metadata.name}", json!(["web"])),
        ("$.metadata.name", json!(["web"])),
        (".metadata['name']", json!(["web"])),
        (".metadata.annotations['a.b/c']", json!(["dotted"])),
        (r".metadata.annotations.a\.b/c", json!(["dotted"])),
        (r".metadata.annotations['a\.b/c']", json!(["dotted"])),
        (".metadata['n.x']", json!(["nested"])),
        (".nope.deeper", json!([])),
        (".spec.containers[0].image", json!(["i1"])),
        (".spec.containers[-1].name", json!(["c"])),
        (".spec.containers[-2].name", json!(["b"])),
        (".spec.containers[*].name", json!(["a", "b", "c"])),
        (".spec.containers[:].name", json!(["a", "b", "c"])),
        (".spec.containers[0:2].name", json!(["a", "b"])),
        (".spec.containers[0:3:2].name", json!(["a", "c"])),
        (".spec.containers[1:].name", json!(["b", "c"])),
        (".spec.containers[0,2].name", json!(["a", "c"])),
        (".spec.containers[0]['name','image']", json!(["a", "i1"])),
        (".status.none[*].x", json!([])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
        (".status.conditions[?(@.type!='Ready')].status", json!(["False"])),
        (".spec.containers[?(@.port>1)].name", json!(["b"])),
        (".spec.containers[?(@.port<=2)].name", json!(["a", "b"])),
        (".spec.containers[?(@.port)].name", json!(["a", "b"])),
        (".spec.containers[?(@.port>0 && @.name=='b')].name", json!(["b"])),
        (".spec.containers[?(@.name=='a&&b')].name", json!([])),
        ("..image", json!(["i1", "i2"])),
        (
            ".status.*",
            json!([[{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}], [], true]),
        ),
        ("", json!([pod.clone()])),
    ] {
        let found = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let found = found.find(&pod).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(json!(found), want, "{path}");
    }
}

#[test]
fn says_what_is_wrong() {
    for (path, want) in [
        (".a[", "unterminated array"),
        (".a[?(", "unterminated filter"),
        (".a[x]", "invalid array index x"),
        (".a....b", "invalid multiple recursive descent"),
        (".a[?(@.b=1)]", "unrecognized filter operator ="),
        (".a!", ""),
    ] {
        let error = JsonPath::parse(path)
            .map(|_| ())
            .err()
            .map(|error| error.to_string());
        assert_eq!(error.unwrap_or_default(), want, "{path}");
    }
    for (path, want) in [
        (
            ".spec.containers[9]",
            "array index out of bounds: index 9, length 3",
        ),
        (".metadata[0]", "map is not array or slice"),
        (
            ".metadata[?(@.a==1)]",
            "map is not array or slice and cannot be filtered",
        ),
        (
            ".status.conditions[?(@.type==1)]",
            "incompatible types for comparison",
        ),
    ] {
        let path = JsonPath::parse(path).expect("a path");
        assert_eq!(path.find(&pod()).expect_err("does not fit").to_string(), want);
    }
    let deep = format!(".a{}{}", "[?(@".repeat(50), ")]".repeat(50));
    assert!(JsonPath::parse(&deep).is_err());
}

#[test]
fn renders_templates() {
    for (template, want) in [
        (
            "{.metadata.name} has {.spec.containers[*].name}.",
            "web has a b c.",
        ),
        (
            r#"{range .spec.containers[*]}{.name}={.image}{"\n"}{end}done"#,
            "a=i1\nb=i2\nc=\ndone",
        ),
        ("{range .status.none[*]}x{end}", ""),
        ("{'{'}{.status.ok}{\"}\"}", "{true}"),
        ("plain", "plain"),
        ("{.metadata.n}", "{\"x\":\"nested\"}"),
    ] {
        let compiled = Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
        assert_eq!(compiled.render(&pod()).as_deref(), Ok(want), "{template}");
    }
    for template in ["{.a", "{end}", "{range .a}x"] {
        assert!(Template::parse(template).is_err(), "{template}");
    }
}
