//! The command lines of upstream's daemons, so that a Deployment's goes on working with this program. Flags that mean
//! something here are flags of our roles; the others are known to [`read`], which takes them out and says why.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Our commands, and what upstream calls the programs.
const ROLES: [(&str, &str); 4] = [
    ("agent", "clusternet-agent"),
    ("controllers", "clusternet-controller-manager"),
    ("hub", "clusternet-hub"),
    ("scheduler", "clusternet-scheduler"),
];

/// Whether a flag stands alone, or has a value that may be the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
}
use Takes::{Nothing, Value};

/// Flags for which there is nothing to do here, and why.
pub(super) struct Idle {
    pub(super) flags: &'static [(&'static str, Takes)],
    /// The roles that they are idle in, all if it is empty.
    pub(super) roles: &'static [&'static str],
    pub(super) why: &'static str,
}

const fn everywhere(flags: &'static [(&'static str, Takes)], why: &'static str) -> Idle {
    Idle {
        flags,
        roles: &[],
        why,
    }
}

pub(super) const IDLE: [Idle; 15] = [
    everywhere(
        &[
            ("cert-dir", Value),
            ("tls-cert-file", Value),
            ("tls-private-key-file", Value),
            ("tls-sni-cert-key", Value),
        ],
        "it makes its serving certificate itself",
    ),
    everywhere(
        &[("tls-cipher-suites", Value), ("tls-min-version", Value)],
        "it serves TLS 1.2 and 1.3 with a fixed set of ciphers",
    ),
    everywhere(
        &[
            ("disable-http2-serving", Nothing),
            ("http2-max-streams-per-connection", Value),
            ("permit-address-sharing", Nothing),
            ("permit-port-sharing", Nothing),
        ],
        "how connections are taken is fixed",
    ),
    everywhere(
        &[("contention-profiling", Nothing), ("profiling", Nothing)],
        "it serves no profiles",
    ),
    everywhere(
        &[
            ("allow-metric-labels", Value),
            ("allow-metric-labels-manifest", Value),
            ("disabled-metrics", Value),
            ("show-hidden-metrics-for-version", Value),
        ],
        "all metrics are shown",
    ),
    everywhere(
        &[
            ("log-flush-frequency", Value),
            ("log-json-info-buffer-size", Value),
            ("log-json-split-stream", Nothing),
            ("log-text-info-buffer-size", Value),
            ("log-text-split-stream", Nothing),
        ],
        "log lines are written to standard error at once",
    ),
    everywhere(&[("vmodule", Value)], "parts of the log are chosen with --log"),
    everywhere(
        &[("leader-elect-resource-lock", Value)],
        "the lock is always a Lease",
    ),
    Idle {
        flags: &[("kube-api-burst", Value), ("kube-api-qps", Value)],
        roles: &["controllers", "hub", "scheduler"],
        why: "how many requests it may send is the API server's to say (API Priority and Fairness)",
    },
    Idle {
        flags: &[
            ("leader-elect", Nothing),
            ("leader-elect-lease-duration", Value),
            ("leader-elect-renew-deadline", Value),
            ("leader-elect-resource-name", Value),
            ("leader-elect-resource-namespace", Value),
            ("leader-elect-retry-period", Value),
        ],
        roles: &["hub"],
        why: "all hubs serve, none leads",
    },
    Idle {
        flags: &[("peer-token", Value)],
        roles: &["hub"],
        why: "hubs know each other by certificates",
    },
    Idle {
        flags: &[
            ("authentication-kubeconfig", Value),
            ("authentication-skip-lookup", Nothing),
            ("authentication-token-webhook-cache-ttl", Value),
            ("authentication-tolerate-lookup-failure", Nothing),
            ("authorization-always-allow-paths", Value),
            ("authorization-kubeconfig", Value),
            ("authorization-webhook-cache-authorized-ttl", Value),
            ("authorization-webhook-cache-unauthorized-ttl", Value),
            ("client-ca-file", Value),
            ("requestheader-allowed-names", Value),
            ("requestheader-client-ca-file", Value),
            ("requestheader-extra-headers-prefix", Value),
            ("requestheader-group-headers", Value),
            ("requestheader-uid-headers", Value),
            ("requestheader-username-headers", Value),
        ],
        roles: &["hub"],
        why: "who callers are and what they may do is asked of the parent that --kubeconfig names",
    },
    Idle {
        flags: &[
            ("audit-log-compress", Nothing),
            ("audit-log-format", Value),
            ("audit-log-maxage", Value),
            ("audit-log-maxbackup", Value),
            ("audit-log-maxsize", Value),
            ("audit-log-path", Value),
            ("audit-log-version", Value),
            ("debug-socket-path", Value),
            ("enable-priority-and-fairness", Nothing),
        ],
        roles: &["hub"],
        why: "it writes no audit log of its own; the parent's has every request",
    },
    Idle {
        flags: &[("enable-tunnel-logging", Nothing)],
        roles: &["agent", "hub"],
        why: "--log info,tunnel=debug shows what tunnels do",
    },
    Idle {
        flags: &[("anonymous-auth-supported", Nothing)],
        roles: &["controllers"],
        why: "they come to the hub's proxy with their own account",
    },
];

/// A flag that was given and does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Its name, without dashes.
    pub(crate) flag: &'static str,
    /// Why it does nothing.
    pub(crate) why: &'static str,
}

/// Reads a whole command line: what is left for our own flags, and what was passed over. A program that is called by a
/// name of upstream's is that role; words of other commands are left alone.
pub(crate) fn read(words: Vec<OsString>) -> (Vec<OsString>, Vec<Passed>) {
    let mut words = named_by_program(words);
    let Some((index, role)) = role(&words) else {
        return (words, Vec::new());
    };
    let mut given = words.split_off(index + 1).into_iter();
    let mut passed = Vec::new();
    while let Some(word) = given.next() {
        let (name, has_value) = match word.to_str().and_then(|word| word.strip_prefix("--")) {
            // Go's programs take both spellings.
            Some(flag) => flag.split_once('=').map_or_else(
                || (flag.replace('_', "-"), false),
                |(name, _)| (name.replace('_', "-"), true),
            ),
            None => {
                words.push(word);
                continue;
            }
        };
        if let Some((takes, idle)) = find(role, &name) {
            if takes == Value && !has_value {
                given.next();
            }
            passed.push(idle);
        } else if name == "version" {
            // In whatever form it was asked for.
            words.push("--version".into());
        } else if name.is_empty() {
            words.push(word);
        } else {
            let value = word.to_str().and_then(|word| word.split_once('='));
            words.push(value.map_or_else(
                || format!("--{name}").into(),
                |(_, value)| format!("--{name}={value}").into(),
            ));
        }
    }
    (words, passed)
}

fn find(role: &str, name: &str) -> Option<(Takes, Passed)> {
    IDLE.iter().find_map(|idle| {
        let here = idle.roles.is_empty() || idle.roles.contains(&role);
        let (flag, takes) = idle.flags.iter().find(|(flag, _)| here && *flag == name)?;
        Some((*takes, Passed { flag, why: idle.why }))
    })
}

fn named_by_program(mut words: Vec<OsString>) -> Vec<OsString> {
    let program = words
        .first()
        .and_then(|word| Path::new(word).file_name())
        .and_then(OsStr::to_str);
    let role = ROLES.iter().find(|(_, name)| program == Some(name));
    if let Some((role, _)) = role {
        words.insert(1, role.into());
    }
    words
}

/// The role that a command line names, and where.
fn role(words: &[OsString]) -> Option<(usize, &'static str)> {
    let mut words = words.iter().enumerate().skip(1);
    while let Some((index, word)) = words.next() {
        let word = word.to_str()?;
        if word == "--log" {
            words.next();
        } else if !word.starts_with('-') {
            let (role, _) = ROLES.iter().find(|(role, _)| *role == word)?;
            return Some((index, role));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn read_line(line: &str) -> (String, Vec<&'static str>) {
        let (words, passed) = read(line.split(' ').map(OsString::from).collect());
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), passed.iter().map(|it| it.flag).collect())
    }

    #[test]
    fn takes_out_what_does_nothing() {
        for (line, left, passed) in [
            ("tombolo scheduler", "tombolo scheduler", &[][..]),
            (
                "tombolo scheduler --profiling --v 2",
                "tombolo scheduler --v 2",
                &["profiling"],
            ),
            (
                "tombolo scheduler --cert-dir /x --config=f",
                "tombolo scheduler --config=f",
                &["cert-dir"],
            ),
            (
                "tombolo --log debug scheduler --cert_dir=/x --kube-api-qps=5",
                "tombolo --log debug scheduler",
                &["cert-dir", "kube-api-qps"],
            ),
            // Of another role, or none.
            (
                "tombolo agent --kube-api-qps=5 --peer-token x",
                "tombolo agent --kube-api-qps=5 --peer-token x",
                &[],
            ),
            ("tombolo apply --profiling", "tombolo apply --profiling", &[]),
            ("tombolo get agent --v 2", "tombolo get agent --v 2", &[]),
            ("tombolo --log hub get --v 2", "tombolo --log hub get --v 2", &[]),
            (
                "/x/clusternet-hub --leader-elect=true",
                "/x/clusternet-hub hub",
                &["leader-elect"],
            ),
            (
                "clusternet-agent --version=json",
                "clusternet-agent agent --version",
                &[],
            ),
            (
                "tombolo hub -v=2 --bind_address=::",
                "tombolo hub -v=2 --bind-address=::",
                &[],
            ),
            ("tombolo", "tombolo", &[]),
        ] {
            assert_eq!(read_line(line), (left.to_owned(), passed.to_vec()), "{line}");
        }
    }

    #[test]
    fn no_flag_is_both_idle_and_ours() {
        use clap::CommandFactory as _;
        let cli = Cli::command();
        for (role, _) in ROLES {
            let command = cli.find_subcommand(role).expect("it is a command");
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert_eq!(find(role, flag), None, "{role} {flag}");
            }
        }
    }

    /// What upstream's programs take (their `--help`, version 0.18), with a value each.
    #[test]
    fn every_flag_of_upstreams_daemons_is_taken() {
        let common = "--bind-address=127.0.0.1 --secure-port=8443 --cert-dir=/c --disable-http2-serving \
            --http2-max-streams-per-connection=9 --permit-address-sharing --permit-port-sharing --tls-cert-file=/c \
            --tls-cipher-suites=a,b --tls-min-version=VersionTLS12 --tls-private-key-file=/k --tls-sni-cert-key=a,b \
            --profiling=false --contention-profiling --leader-elect=true --leader-elect-lease-duration=30s \
            --leader-elect-renew-deadline=20s --leader-elect-retry-period=4s --leader-elect-resource-name=name \
            --leader-elect-resource-namespace=clusternet-system --leader-elect-resource-lock=leases \
            --log-flush-frequency=5s --log-json-info-buffer-size=0 --log-json-split-stream \
            --log-text-info-buffer-size=0 --log-text-split-stream --logging-format=text --vmodule=a=1 --v=4 \
            --kube-api-qps=50 --kube-api-burst=100 --kubeconfig=/k";
        let metrics = "--allow-metric-labels=a=b --allow-metric-labels-manifest=/m --disabled-metrics=a \
            --show-hidden-metrics-for-version=1.31";
        let registration = "--cluster-reg-token=abcdef.0123456789abcdef --cluster-reg-parent-url=https://parent:6443 \
            --cluster-reg-name=edge --cluster-reg-name-prefix=edge --cluster-reg-namespace=edge \
            --cluster-reg-type=EdgeCluster --cluster-sync-mode=Dual --cluster-labels=a=b \
            --cluster-status-update-frequency=3m --cluster-status-collect-frequency=20s \
            --labels-aggregate-threshold=0.8 --labels-aggregate-prefix=a/,b/ --use-metrics-server=false \
            --predictor-addr=http://p --predictor-direct-access=false --predictor-port=8080 \
            --enable-tunnel-logging=false \
            --feature-gates=SocketConnection=true,AppPusher=true,Recovery=true,Predictor=true";
        let hub = "--reserved-namespace=clusternet-reserved --peer-port=8123 --peer-advertise-address=10.0.0.1 \
            --peer-token=x --enable-tunnel-logging --feature-gates=SocketConnection=true,ShadowAPI=true \
            --authentication-kubeconfig=/k --authentication-skip-lookup \
            --authentication-token-webhook-cache-ttl=10s --authentication-tolerate-lookup-failure \
            --authorization-always-allow-paths=/healthz --authorization-kubeconfig=/k \
            --authorization-webhook-cache-authorized-ttl=10s --authorization-webhook-cache-unauthorized-ttl=10s \
            --client-ca-file=/c --requestheader-allowed-names=a --requestheader-client-ca-file=/c \
            --requestheader-extra-headers-prefix=a --requestheader-group-headers=a --requestheader-uid-headers=a \
            --requestheader-username-headers=a --audit-log-compress --audit-log-format=json --audit-log-maxage=1 \
            --audit-log-maxbackup=1 --audit-log-maxsize=1 --audit-log-path=- --audit-log-version=v1 \
            --debug-socket-path=/s --enable-priority-and-fairness=true";
        let controllers = "--controllers=* --threadiness=10 --reserved-namespace=clusternet-reserved \
            --anonymous-auth-supported=true --cluster-api-kubeconfig=/k \
            --feature-gates=SocketConnection=true,Deployer=true,FeedInUseProtection=true,FeedInventory=true,ClusterInit=false";
        let scheduler = "--config=/c --feature-gates=FailOver=true,FeasibleClustersToleration=true";
        for (program, own) in [
            ("clusternet-hub", hub),
            ("clusternet-scheduler", &format!("{metrics} {scheduler}")),
            (
                "clusternet-controller-manager",
                &format!("{metrics} {controllers}"),
            ),
            ("clusternet-agent", &format!("{metrics} {registration}")),
        ] {
            let line = format!("{program} {common} {own}");
            for form in [
                line.clone(),
                line.replace("--kubeconfig=", "--kubeconfig ")
                    .replace("--v=", "-v "),
            ] {
                let words = form.split_whitespace().map(OsString::from).collect();
                let (words, passed) = read(words);
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{program}: {error}");
                }
                assert!(
                    passed.iter().any(|it| it.flag == "cert-dir"),
                    "{program}: {passed:?}"
                );
            }
        }
    }
}
