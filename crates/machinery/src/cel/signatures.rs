//! What functions take and give, as far as it can be told before there are values.

use std::sync::LazyLock;

use super::check::Type;
use super::functions::FORMATS;

/// One form of a function; a method's receiver is its first type.
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) is_method: bool,
    takes: Vec<&'static str>,
    gives: &'static str,
}

/// `[RECEIVER.]NAME(TYPES) TYPE`; `any` is every type, `item` the type of the receiver's items, `same`
/// that of the receiver.
const TABLE: &str = "
size(string) int
size(list) int
size(map) int
string.size() int
list.size() int
map.size() int
dyn(any) dyn
type(any) type
bool(bool) bool
bool(string) bool
int(int) int
int(uint) int
int(double) int
int(string) int
int(timestamp) int
int(duration) int
uint(uint) uint
uint(int) uint
uint(double) uint
uint(string) uint
double(double) double
double(int) double
double(uint) double
double(string) double
string(any) string
string.contains(string) bool
string.startsWith(string) bool
string.endsWith(string) bool
string.matches(string) bool
matches(string, string) bool
string.find(string) string
string.findAll(string) list
string.findAll(string, int) list
string.lowerAscii() string
string.upperAscii() string
string.trim() string
string.format(list) string
strings.quote(string) string
format.named(string) optional
format.byte() format
format.date() format
format.datetime() format
format.dns1035Label() format
format.dns1035LabelPrefix() format
format.dns1123Label() format
format.dns1123LabelPrefix() format
format.dns1123Subdomain() format
format.dns1123SubdomainPrefix() format
format.labelValue() format
format.qualifiedName() format
format.uri() format
format.uuid() format
format.validate(string) optional
string.reverse() string
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string, int) int
string.lastIndexOf(string) int
string.lastIndexOf(string, int) int
string.replace(string, string) string
string.replace(string, string, int) string
string.split(string) texts
string.split(string, int) texts
string.substring(int) string
string.substring(int, int) string
list.isSorted() bool
list.min() item
list.max() item
list.sum() item
list.indexOf(any) int
list.lastIndexOf(any) int
list.join() string
list.join(string) string
list.flatten() list
list.flatten(int) list
list.slice(int, int) same
list.sort() same
list.reverse() same
list.distinct() same
lists.range(int) ints
list.first() optional
list.last() optional
sets.contains(list, list) bool
sets.equivalent(list, list) bool
sets.intersects(list, list) bool
duration(string) duration
duration(duration) duration
timestamp(string) timestamp
timestamp(int) timestamp
timestamp(timestamp) timestamp
duration.getHours() int
duration.getMinutes() int
duration.getSeconds() int
duration.getMilliseconds() int
timestamp.getFullYear() int
timestamp.getMonth() int
timestamp.getDate() int
timestamp.getDayOfMonth() int
timestamp.getDayOfWeek() int
timestamp.getDayOfYear() int
timestamp.getHours() int
timestamp.getMinutes() int
timestamp.getSeconds() int
timestamp.getMilliseconds() int
timestamp.getFullYear(string) int
timestamp.getMonth(string) int
timestamp.getDate(string) int
timestamp.getDayOfMonth(string) int
timestamp.getDayOfWeek(string) int
timestamp.getDayOfYear(string) int
timestamp.getHours(string) int
timestamp.getMinutes(string) int
timestamp.getSeconds(string) int
timestamp.getMilliseconds(string) int
quantity(string) quantity
isQuantity(string) bool
quantity.sign() int
quantity.isInteger() bool
quantity.asInteger() int
quantity.asApproximateFloat() double
quantity.add(quantity) quantity
quantity.add(int) quantity
quantity.sub(quantity) quantity
quantity.sub(int) quantity
quantity.isLessThan(quantity) bool
quantity.isGreaterThan(quantity) bool
quantity.compareTo(quantity) int
semver(string) semver
semver(string, bool) semver
isSemver(string) bool
isSemver(string, bool) bool
semver.major() int
semver.minor() int
semver.patch() int
semver.isLessThan(semver) bool
semver.isGreaterThan(semver) bool
semver.compareTo(semver) int
url(string) url
isURL(string) bool
url.getScheme() string
url.getHost() string
url.getHostname() string
url.getPort() string
url.getEscapedPath() string
url.getQuery() map
ip(string) ip
isIP(string) bool
ip.isCanonical(string) bool
ip.family() int
ip.isUnspecified() bool
ip.isLoopback() bool
ip.isLinkLocalMulticast() bool
ip.isLinkLocalUnicast() bool
ip.isGlobalUnicast() bool
cidr(string) cidr
isCIDR(string) bool
cidr.containsIP(string) bool
cidr.containsIP(ip) bool
cidr.containsCIDR(string) bool
cidr.containsCIDR(cidr) bool
cidr.ip() ip
cidr.masked() cidr
cidr.prefixLength() int
optional.of(any) optional
optional.ofNonZeroValue(any) optional
optional.none() optional
optional.hasValue() bool
optional.value() dyn
optional.or(optional) optional
optional.orValue(any) dyn
optional.unwrap(list) list
list.unwrapOpt() list
";

/// Functions whose names have a dot.
const SPACED: [(&str, &[&str]); 6] = [
    ("lists", &["range"]),
    ("sets", &["contains", "equivalent", "intersects"]),
    ("ip", &["isCanonical"]),
    ("optional", &["of", "ofNonZeroValue", "none", "unwrap"]),
    ("strings", &["quote"]),
    ("format", &["named"]),
];

/// Whether the two parts are one name of a function.
pub(super) fn is_spaced(space: &str, name: &str) -> bool {
    SPACED
        .iter()
        .any(|(known, names)| *known == space && names.contains(&name))
        || (space == "format" && FORMATS.contains(&name))
}

/// Functions that Kubernetes has and this does not: rules that use them are accepted, and hold.
pub(super) const MISSING: [&str; 4] = ["bytes", "transformList", "transformMap", "transformMapEntry"];

fn words(list: &'static str) -> Vec<&'static str> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect()
}

static SIGNATURES: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    let parse = |line: &'static str| {
        let (head, gives) = line.rsplit_once(' ')?;
        let (name, takes) = head.strip_suffix(')')?.split_once('(')?;
        let mut takes = words(takes);
        let (is_method, name) = match name.split_once('.') {
            Some((receiver, method)) if !is_spaced(receiver, method) => {
                takes.insert(0, receiver);
                (true, method)
            }
            Some(_) | None => (false, name),
        };
        Some(Signature {
            name,
            is_method,
            takes,
            gives,
        })
    };
    TABLE.lines().filter_map(parse).collect()
});

/// Every form of the functions of a name.
pub(super) fn of<'a>(name: &'a str) -> impl Iterator<Item = &'static Signature> + 'a {
    SIGNATURES.iter().filter(move |signature| signature.name == name)
}

impl Signature {
    /// Whether values of these types can be taken.
    pub(super) fn fits(&self, is_method: bool, types: &[Type<'_>]) -> bool {
        self.is_method == is_method
            && self.takes.len() == types.len()
            && self
                .takes
                .iter()
                .zip(types)
                .all(|(wanted, found)| found.may_be(wanted))
    }

    /// What it gives for these types.
    pub(super) fn gives<'a>(&self, types: &[Type<'a>]) -> Type<'a> {
        match self.gives {
            "item" => types.first().map_or(Type::Dyn, Type::item),
            "same" => types.first().cloned().unwrap_or(Type::Dyn),
            "ints" => Type::List(Box::new(Type::Plain("int"))),
            "texts" => Type::List(Box::new(Type::Plain("string"))),
            "list" => Type::List(Box::new(Type::Dyn)),
            "map" => Type::Map(Box::new(Type::Dyn)),
            "dyn" => Type::Dyn,
            plain => Type::Plain(plain),
        }
    }
}
