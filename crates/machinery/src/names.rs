//! Which texts may be names, label keys, label values and the like, with the words in which Kubernetes refuses
//! them. Every rule comes in two forms: `NAME_problems` lists what is wrong, `is_NAME` joins that to one text.

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const EMPTY: &str = "must be non-empty";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn joined(problems: &[String]) -> Result<(), String> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("; "))
    }
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn label_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => {
            lower_or_digit(first)
                && lower_or_digit(last)
                && bytes.iter().all(|&byte| byte == b'-' || lower_or_digit(byte))
        }
        (None, _) | (_, None) => false,
    }
}

fn subdomain_shape(text: &str) -> bool {
    text.split('.').all(label_shape)
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn qualified_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        }
        (None, _) | (_, None) => false,
    }
}

/// What keeps a text from being a DNS-1123 label, such as a namespace's name: lower-case letters, digits and
/// dashes, at most 63 bytes.
pub fn dns1123_label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !label_shape(text) {
        problems.push(if subdomain_shape(text) {
            "must not contain dots".to_owned()
        } else {
            DNS1123_LABEL.to_owned()
        });
    }
    problems
}

/// Whether a text is a DNS-1123 label.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn is_dns1123_label(text: &str) -> Result<(), String> {
    joined(&dns1123_label_problems(text))
}

/// What keeps a text from being a DNS-1123 subdomain, the form of most objects' names: labels joined by dots, at
/// most 253 bytes.
pub fn dns1123_subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !subdomain_shape(text) {
        problems.push(DNS1123_SUBDOMAIN.to_owned());
    }
    problems
}

/// Whether a text is a DNS-1123 subdomain.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn is_dns1123_subdomain(text: &str) -> Result<(), String> {
    joined(&dns1123_subdomain_problems(text))
}

/// What keeps a text from being a DNS-1035 label, the form of a Service's name: as a DNS-1123 label, but it
/// starts with a letter.
pub fn dns1035_label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !label_shape(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        problems.push(DNS1035_LABEL.to_owned());
    }
    problems
}

/// Whether a text is a DNS-1035 label.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn is_dns1035_label(text: &str) -> Result<(), String> {
    joined(&dns1035_label_problems(text))
}

/// What keeps a text from being `*.` and a DNS-1123 subdomain, as in an Ingress rule's host.
pub fn wildcard_subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.strip_prefix("*.").is_some_and(subdomain_shape) {
        problems.push(WILDCARD.to_owned());
    }
    problems
}

/// What keeps a text from being a qualified name: a name of at most 63 bytes, optionally behind a DNS subdomain
/// and a slash.
pub fn qualified_name_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                problems.push(format!("prefix part {EMPTY}"));
            } else {
                problems.extend(
                    dns1123_subdomain_problems(prefix)
                        .into_iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
        (_, _, Some(_)) => {
            return vec![format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        (name, None, None) => name.unwrap_or_default(),
        (None, Some(_), None) => "",
    };
    if name.is_empty() {
        problems.push(format!("name part {EMPTY}"));
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !qualified_shape(name) {
        problems.push(format!("name part {QUALIFIED}"));
    }
    problems
}

/// Whether a text is a qualified name, such as a condition's type.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn is_qualified_name(text: &str) -> Result<(), String> {
    joined(&qualified_name_problems(text))
}

/// Whether a text may be a label's key.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn validate_label_key(text: &str) -> Result<(), String> {
    joined(&qualified_name_problems(text))
}

/// What keeps a text from being a label's value: empty, or letters, digits, `-`, `_` and `.`, at most 63 bytes.
pub fn label_value_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !text.is_empty() && !qualified_shape(text) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

/// Whether a text may be a label's value.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn validate_label_value(text: &str) -> Result<(), String> {
    joined(&label_value_problems(text))
}

/// Whether a text may be an annotation's key: a qualified name, in any case.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn validate_annotation_key(text: &str) -> Result<(), String> {
    joined(&qualified_name_problems(&text.to_lowercase()))
}

/// What keeps a text from being one segment of a URL's path, the widest form of a name (RBAC roles have it).
pub fn path_segment_problems(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|part| text.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Whether a text may be one segment of a URL's path.
///
/// # Errors
/// What is wrong, in Kubernetes' words.
pub fn is_path_segment_name(text: &str) -> Result<(), String> {
    joined(&path_segment_problems(text))
}

/// What keeps a text from being a key of a ConfigMap or Secret.
pub fn config_key_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    let shape = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(shape) {
        problems.push(CONFIG_KEY.to_owned());
    }
    if text == "." {
        problems.push("must not be '.'".to_owned());
    } else if text == ".." {
        problems.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

/// What keeps a text from naming an environment variable: printable ASCII other than `=`.
pub fn env_name_problems(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec![EMPTY.to_owned()];
    }
    if text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=')
    {
        Vec::new()
    } else {
        vec![ENV_NAME.to_owned()]
    }
}

/// What keeps a text from being an identifier of the C language.
pub fn c_identifier_problems(text: &str) -> Vec<String> {
    let first = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        Vec::new()
    } else {
        vec![C_IDENTIFIER.to_owned()]
    }
}

/// What keeps a text from being a port's name (RFC 6335).
pub fn port_name_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 15 {
        problems.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte == b'-' || lower_or_digit(byte)) {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

/// What keeps a number from being a port.
pub fn port_number_problems(port: i64) -> Vec<String> {
    if (1..=65_535).contains(&port) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// A `generateName` as it is checked before its suffix is known: a dash at the end stands for more.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(head) if !head.is_empty() => {
            let mut end = head.len() - 1;
            while !head.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}a", &head[..end])
        }
        Some(_) | None => prefix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_and_refuses_each_form() {
        type Rule = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let table: &[(&str, Rule, &str, usize)] = &[
            ("label", dns1123_label_problems, "a", 0),
            ("label", dns1123_label_problems, "0-a", 0),
            ("label", dns1123_label_problems, "", 1),
            ("label", dns1123_label_problems, "-a", 1),
            ("label", dns1123_label_problems, "a-", 1),
            ("label", dns1123_label_problems, "A", 1),
            ("label", dns1123_label_problems, "a.b", 1),
            ("label", dns1123_label_problems, &long, 1),
            ("subdomain", dns1123_subdomain_problems, "a.b-c.0", 0),
            ("subdomain", dns1123_subdomain_problems, "a..b", 1),
            ("subdomain", dns1123_subdomain_problems, "a.", 1),
            ("subdomain", dns1123_subdomain_problems, "a_b", 1),
            ("1035", dns1035_label_problems, "a-1", 0),
            ("1035", dns1035_label_problems, "1-a", 1),
            ("wildcard", wildcard_subdomain_problems, "*.a.b", 0),
            ("wildcard", wildcard_subdomain_problems, "a.b", 1),
            ("qualified", qualified_name_problems, "example.com/My_Name.1", 0),
            ("qualified", qualified_name_problems, "a/b/c", 1),
            ("qualified", qualified_name_problems, "/b", 1),
            ("qualified", qualified_name_problems, "b/", 2),
            ("qualified", qualified_name_problems, "", 2),
            ("qualified", qualified_name_problems, "A/b", 1),
            ("value", label_value_problems, "", 0),
            ("value", label_value_problems, "A.b_c-1", 0),
            ("value", label_value_problems, "_a", 1),
            ("value", label_value_problems, "a b", 1),
            ("segment", path_segment_problems, "system:a", 0),
            ("segment", path_segment_problems, "..", 1),
            ("segment", path_segment_problems, "a/b%", 2),
            ("config", config_key_problems, "a.B_c", 0),
            ("config", config_key_problems, "..a", 1),
            ("config", config_key_problems, "a b", 1),
            ("env", env_name_problems, "A b", 0),
            ("env", env_name_problems, "a=b", 1),
            ("port", port_name_problems, "http-1", 0),
            ("port", port_name_problems, "--", 3),
            ("c", c_identifier_problems, "_a1", 0),
            ("c", c_identifier_problems, "1a", 1),
        ];
        for (form, rule, text, wrong) in table {
            assert_eq!(rule(text).len(), *wrong, "{form} {text:?}: {:?}", rule(text));
        }
    }

    #[test]
    fn speaks_as_kubernetes_does() {
        assert_eq!(
            is_dns1123_label("a.b").expect_err("dots"),
            "must not contain dots"
        );
        assert_eq!(
            is_dns1123_label("A").expect_err("upper case"),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        );
        assert_eq!(
            is_qualified_name(&format!("x/{}", "a".repeat(64))).expect_err("long"),
            "name part must be no more than 63 characters"
        );
    }

    #[test]
    fn masks_the_dash_of_a_generated_name() {
        for (prefix, masked) in [("web-", "wea"), ("-", "-"), ("web", "web"), ("aé-", "aa")] {
            assert_eq!(mask_trailing_dash(prefix), masked);
        }
    }
}
