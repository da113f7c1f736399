//! A plan in words, and for machines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use placement::ClusterKey;
use serde_json::{Value, json};

use super::compare::{Course, Fate, ObjectChange, Replicas, Then, Verb};
use super::fields::Field;
use super::foresee::Outlook;
use crate::Error;
use crate::output::print_table;

/// As many clusters as are named where more are meant.
const NAMED: usize = 5;

/// Everything that would change.
pub(super) struct Report {
    pub(super) outlooks: Vec<Outlook>,
    /// What concerns no Subscription, in sentences.
    pub(super) notes: Vec<String>,
    /// How clusters are called.
    pub(super) names: Names,
}

/// What clusters are called: by their names, as long as those are not shared.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut seen = BTreeSet::new();
        let shared = names.filter(|name| !seen.insert((*name).to_owned()));
        Self(shared.map(ToOwned::to_owned).collect())
    }

    fn of(&self, cluster: &ClusterKey) -> String {
        if cluster.name.is_empty() || self.0.contains(&cluster.name) {
            cluster.to_string()
        } else {
            cluster.name.clone()
        }
    }

    fn list(&self, clusters: &[&ClusterKey]) -> String {
        let mut named: Vec<String> = clusters.iter().map(|it| self.of(it)).collect();
        named.sort_unstable();
        named.truncate(NAMED);
        let more = clusters.len() - named.len();
        let named = named.join(", ");
        if more == 0 {
            named
        } else {
            format!("{named} and {more} more")
        }
    }
}

/// How much changes, over all clusters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    clusters: usize,
    gained: usize,
    lost: usize,
    added: usize,
    changed: usize,
    removed: usize,
    open: bool,
}

impl Report {
    fn changed(&self) -> impl Iterator<Item = &Fate> {
        let all = self.outlooks.iter().flat_map(|outlook| &outlook.clusters);
        all.filter(|fate| fate.changes())
    }

    /// Whether anything would change anywhere.
    pub(super) fn differs(&self) -> bool {
        self.changed().next().is_some()
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        let mut clusters = BTreeSet::new();
        for fate in self.changed() {
            clusters.insert(&fate.cluster);
            match fate.course {
                Course::Gained => sums.gained += 1,
                Course::Lost => sums.lost += 1,
                Course::Kept => {}
            }
            // Objects that change in nothing but their replicas.
            let mut scaled = fate.replicas.iter().filter(|it| it.changes()).count();
            for change in &fate.objects {
                match &change.verdict {
                    Verb::Added => sums.added += 1,
                    Verb::Removed => sums.removed += 1,
                    Verb::Changed(_) => sums.changed += 1,
                }
                let replicas = fate.replicas.iter().filter(|it| it.changes());
                scaled -= replicas.filter(|it| it.feed.is_same(&change.object)).count();
            }
            sums.changed += scaled;
            sums.open |= fate
                .replicas
                .iter()
                .any(|it| matches!(it.then, Then::Between(..)));
        }
        sums.clusters = clusters.len();
        sums
    }

    /// What it comes to, in one line.
    pub(super) fn conclusion(&self) -> String {
        let sums = self.sums();
        if sums.clusters == 0 {
            return "Nothing would change.".to_owned();
        }
        let mut moves = Vec::new();
        for (count, word) in [(sums.gained, "gained"), (sums.lost, "lost")] {
            if count > 0 {
                moves.push(format!("{count} {word}"));
            }
        }
        let moves = if moves.is_empty() {
            String::new()
        } else {
            format!(" ({})", moves.join(", "))
        };
        let open = if sums.open {
            "; replicas depend on room"
        } else {
            ""
        };
        format!(
            "{} cluster(s) would change{moves}; objects: {} added, {} changed, {} removed{open}.",
            sums.clusters, sums.added, sums.changed, sums.removed
        )
    }

    /// For machines.
    pub(super) fn document(&self) -> Value {
        let subscriptions: Vec<Value> = self.outlooks.iter().map(subscription).collect();
        let sums = self.sums();
        json!({
            "subscriptions": subscriptions, "notes": self.notes, "conclusion": self.conclusion(),
            "changes": self.differs(),
            "summary": {
                "clusters": sums.clusters, "gained": sums.gained, "lost": sums.lost,
                "added": sums.added, "changed": sums.changed, "removed": sums.removed,
            },
        })
    }

    /// For people.
    ///
    /// # Errors
    /// The output's.
    pub(super) fn print(&self, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        for outlook in &self.outlooks {
            self.print_outlook(outlook, out)?;
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        Ok(writeln!(out, "{}", self.conclusion())?)
    }

    fn print_outlook(&self, outlook: &Outlook, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        let on = |course: Course| -> Vec<&ClusterKey> {
            let clusters = outlook.clusters.iter().filter(|fate| fate.course == course);
            clusters.map(|fate| &fate.cluster).collect()
        };
        let (gained, kept, lost) = (on(Course::Gained), on(Course::Kept), on(Course::Lost));
        writeln!(
            out,
            "Subscription {}/{}, {}: {} cluster(s) now, {} then",
            outlook.namespace,
            outlook.name,
            outlook.strategy,
            kept.len() + lost.len(),
            kept.len() + gained.len()
        )?;
        for (word, clusters) in [("gained", &gained), ("lost", &lost)] {
            if !clusters.is_empty() {
                writeln!(out, "  {word}: {}", self.names.list(clusters))?;
            }
        }
        for note in &outlook.notes {
            writeln!(out, "  {note}")?;
        }
        self.print_replicas(outlook, out)?;
        for (fate, clusters) in merged(outlook, |fate| {
            (!fate.objects.is_empty()).then(|| objects(&fate.objects).to_string())
        }) {
            writeln!(
                out,
                "\nIn {} cluster(s) ({}):",
                clusters.len(),
                self.names.list(&clusters)
            )?;
            for change in &fate.objects {
                print_object(change, out)?;
            }
        }
        Ok(())
    }

    /// Clusters with the same number now and then share a line.
    fn print_replicas(&self, outlook: &Outlook, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        let mut lines: BTreeMap<[String; 3], Vec<&ClusterKey>> = BTreeMap::new();
        for fate in &outlook.clusters {
            for replicas in fate.replicas.iter().filter(|it| it.changes()) {
                let line = [replicas.feed.to_string(), number(replicas.now), then(replicas)];
                lines.entry(line).or_default().push(&fate.cluster);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let header = ["REPLICAS OF", "NOW", "THEN", "CLUSTERS"].map(ToOwned::to_owned);
        let cells: Vec<Vec<String>> = lines
            .into_iter()
            .map(|(line, clusters)| [&line[..], &[self.names.list(&clusters)]].concat())
            .collect();
        print_table(out, &header, &cells)
    }
}

/// The clusters of which `key` says the same, in the order in which each kind is met first.
fn merged(outlook: &Outlook, key: impl Fn(&Fate) -> Option<String>) -> Vec<(&Fate, Vec<&ClusterKey>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(&Fate, Vec<&ClusterKey>)> = Vec::new();
    for fate in &outlook.clusters {
        let Some(key) = key(fate) else { continue };
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((fate, Vec::new()));
        }
        groups[place].1.push(&fate.cluster);
    }
    groups
}

fn print_object(change: &ObjectChange, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let (sign, fields) = match &change.verdict {
        Verb::Added => ('+', &[] as &[Field]),
        Verb::Removed => ('-', &[] as &[Field]),
        Verb::Changed(fields) => ('~', fields.as_slice()),
    };
    writeln!(out, "  {sign} {}", change.object)?;
    for field in fields {
        writeln!(out, "      {}", field.to_line())?;
    }
    Ok(())
}

fn number(number: Option<i64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn then(replicas: &Replicas) -> String {
    match replicas.then {
        Then::Known(then) => number(then),
        Then::Between(least, most) => format!("{least} to {most}"),
    }
}

fn subscription(outlook: &Outlook) -> Value {
    let clusters: Vec<Value> = outlook
        .clusters
        .iter()
        .map(|fate| {
            let replicas: Vec<Value> = fate
                .replicas
                .iter()
                .map(|replicas| {
                    let (least, most) = match replicas.then {
                        Then::Known(then) => (then, then),
                        Then::Between(least, most) => (Some(least), Some(most)),
                    };
                    json!({"feed": replicas.feed.to_value(), "now": replicas.now, "least": least, "most": most})
                })
                .collect();
            json!({
                "namespace": fate.cluster.namespace, "name": fate.cluster.name, "course": fate.course.as_str(),
                "changes": fate.changes(), "replicas": replicas, "objects": objects(&fate.objects),
            })
        })
        .collect();
    json!({
        "namespace": outlook.namespace, "name": outlook.name, "strategy": outlook.strategy,
        "notes": outlook.notes, "clusters": clusters,
    })
}

fn objects(changes: &[ObjectChange]) -> Value {
    let object = |change: &ObjectChange| {
        let mut value = change.object.to_value();
        match &change.verdict {
            Verb::Added => value["change"] = json!("added"),
            Verb::Removed => value["change"] = json!("removed"),
            Verb::Changed(fields) => {
                value["change"] = json!("changed");
                value["fields"] = fields.iter().map(Field::to_value).collect();
            }
        }
        value
    };
    changes.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use distribution::Feed;

    use super::super::fields::Change;
    use super::*;

    fn feed(name: &str) -> Feed {
        Feed {
            kind: "Deployment".into(),
            api_version: "apps/v1".into(),
            namespace: "web".into(),
            name: name.into(),
        }
    }

    fn changed(new: i64) -> ObjectChange {
        ObjectChange {
            object: feed("nginx"),
            verdict: Verb::Changed(vec![Field {
                path: "spec.x".into(),
                change: Change::Shown(Some(json!(1)), Some(json!(new))),
            }]),
        }
    }

    fn report(clusters: Vec<Fate>) -> Report {
        let outlook = Outlook {
            namespace: "default".into(),
            name: "app".into(),
            strategy: "replicated",
            notes: Vec::new(),
            clusters,
        };
        Report {
            outlooks: vec![outlook],
            notes: Vec::new(),
            names: Names::default(),
        }
    }

    fn fate(name: &str, course: Course, objects: Vec<ObjectChange>) -> Fate {
        Fate {
            cluster: ClusterKey::new("ns", name),
            course,
            replicas: Vec::new(),
            objects,
        }
    }

    fn printed(report: &Report) -> String {
        let mut out = Vec::new();
        report.print(&mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn clusters_with_the_same_changes_are_told_of_once() {
        let mut clusters: Vec<Fate> = (1..=7)
            .map(|n| fate(&format!("c{n}"), Course::Kept, vec![changed(2)]))
            .collect();
        clusters.push(fate("d", Course::Kept, vec![changed(3)]));
        clusters.push(fate("e", Course::Kept, Vec::new()));
        let verdict = Verb::Removed;
        let object = feed("nginx");
        clusters.push(fate("f", Course::Lost, vec![ObjectChange { object, verdict }]));
        assert_eq!(
            printed(&report(clusters)),
            "Subscription default/app, replicated: 10 cluster(s) now, 9 then\n  lost: f\n\
             \nIn 7 cluster(s) (c1, c2, c3, c4, c5 and 2 more):\n  ~ Deployment web/nginx\n      spec.x: 1 -> 2\n\
             \nIn 1 cluster(s) (d):\n  ~ Deployment web/nginx\n      spec.x: 1 -> 3\n\
             \nIn 1 cluster(s) (f):\n  - Deployment web/nginx\n\
             \n9 cluster(s) would change (1 lost); objects: 0 added, 8 changed, 1 removed.\n"
        );
    }

    #[test]
    fn replicas_are_a_change_and_may_be_open() {
        let replicas = |now, then| Replicas {
            feed: feed("nginx"),
            now,
            then,
        };
        let with = |name: &str, objects: Vec<ObjectChange>, now, then| Fate {
            replicas: vec![replicas(now, then)],
            ..fate(name, Course::Kept, objects)
        };
        let clusters = vec![
            with("a", vec![changed(2)], Some(1), Then::Known(Some(2))),
            with("b", Vec::new(), Some(1), Then::Known(Some(2))),
            with("c", Vec::new(), Some(2), Then::Known(Some(2))),
            with("d", Vec::new(), None, Then::Between(0, 3)),
        ];
        let report = report(clusters);
        assert_eq!(
            printed(&report),
            "Subscription default/app, replicated: 4 cluster(s) now, 4 then\n\
             \nREPLICAS OF            NOW   THEN     CLUSTERS\n\
             Deployment web/nginx   -     0 to 3   d\n\
             Deployment web/nginx   1     2        a, b\n\
             \nIn 1 cluster(s) (a):\n  ~ Deployment web/nginx\n      spec.x: 1 -> 2\n\
             \n3 cluster(s) would change; objects: 0 added, 3 changed, 0 removed; replicas depend on room.\n"
        );
        let document = report.document();
        let clusters = &document["subscriptions"][0]["clusters"];
        assert_eq!(clusters[3]["replicas"][0]["most"], 3);
        assert_eq!(clusters[2]["changes"], false);
        assert_eq!(
            clusters[0]["objects"][0]["fields"],
            json!([{"path": "spec.x", "old": 1, "new": 2}])
        );
        assert_eq!(document["summary"]["changed"], 3);
    }

    #[test]
    fn names_that_are_shared_are_told_apart() {
        let names = Names::new(["a", "b", "a"].into_iter());
        let called = |name: &str| names.of(&ClusterKey::new("ns", name));
        assert_eq!((called("a"), called("b")), ("ns/a".to_owned(), "b".to_owned()));
        let report = report(vec![fate("a", Course::Kept, Vec::new())]);
        assert!(!report.differs());
        assert!(printed(&report).ends_with("\n\nNothing would change.\n"));
    }
}
