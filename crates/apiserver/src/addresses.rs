//! Addresses and ports of Services: each is given to one Service only.
//!
//! What is taken is read from the stored Services at the first allocation and kept up to date with each write of
//! this server; what a failed write was granted is given back.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use serde_json::Value;
use source::{Key, ListRequest, ObjectSource, Resource};

use crate::problems::Problems;
use crate::strategy::items_mut;

/// The network that addresses come from: 10.96.0.0/16.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
/// How many addresses it has.
const SIZE: u32 = 1 << 16;
/// The first addresses are left to those who ask for them by name.
const RESERVED: u32 = 256;
/// The ports that nodes open for Services.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// What is taken, by whom.
#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeMap<u32, Key>,
    ports: BTreeMap<u16, Key>,
}

/// What one request was given that its Service did not have before.
#[derive(Debug, Default)]
#[must_use = "a grant whose write fails must be given back"]
pub(crate) struct Grant {
    addresses: Vec<u32>,
    ports: Vec<u16>,
}

/// Gives addresses and ports.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<Option<Taken>>);

impl Addresses {
    /// Gives a Service the addresses and ports that it is to have; `random` picks where the search starts.
    pub(crate) async fn allocate(
        &self,
        source: &dyn ObjectSource,
        key: &Key,
        service: &mut Value,
        random: u64,
        problems: &mut Problems,
    ) -> Result<Grant, source::Error> {
        if self.0.lock().expect("no holder panics").is_none() {
            let taken = read(source).await?;
            self.0.lock().expect("no holder panics").get_or_insert(taken);
        }
        let mut guard = self.0.lock().expect("no holder panics");
        let taken = guard.get_or_insert_default();
        let mut grant = Grant::default();
        taken.give_address(key, service, random, &mut grant, problems);
        taken.give_ports(key, service, random, &mut grant, problems);
        Ok(grant)
    }

    /// Takes back what a request was given whose write did not happen.
    pub(crate) fn give_back(&self, key: &Key, grant: Grant) {
        if let Some(taken) = self.0.lock().expect("no holder panics").as_mut() {
            for address in grant.addresses {
                if taken.addresses.get(&address) == Some(key) {
                    taken.addresses.remove(&address);
                }
            }
            for port in grant.ports {
                if taken.ports.get(&port) == Some(key) {
                    taken.ports.remove(&port);
                }
            }
        }
    }

    /// Notes what a Service has that was just stored, and that it has nothing else any longer.
    pub(crate) fn stored(&self, key: &Key, json: &[u8]) {
        let Ok(service) = serde_json::from_slice::<Value>(json) else {
            return;
        };
        if let Some(taken) = self.0.lock().expect("no holder panics").as_mut() {
            taken.release(key);
            taken.note(key, &service);
        }
    }

    /// Takes back what a deleted Service had.
    pub(crate) fn release(&self, key: &Key) {
        if let Some(taken) = self.0.lock().expect("no holder panics").as_mut() {
            taken.release(key);
        }
    }
}

async fn read(source: &dyn ObjectSource) -> Result<Taken, source::Error> {
    let page = source
        .list(&ListRequest {
            resource: &Resource::new("", "services"),
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        })
        .await?;
    let mut taken = Taken::default();
    for object in &page.objects {
        if let Ok(service) = serde_json::from_slice::<Value>(&object.json) {
            taken.note(&object.key, &service);
        }
    }
    Ok(taken)
}

impl Taken {
    fn note(&mut self, key: &Key, service: &Value) {
        if let Some(address) = address(&service["spec"]["clusterIP"]) {
            self.addresses.insert(address, key.clone());
        }
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            if let Some(port) = port["nodePort"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
            {
                self.ports.insert(port, key.clone());
            }
        }
    }

    fn release(&mut self, key: &Key) {
        self.addresses.retain(|_, holder| holder != key);
        self.ports.retain(|_, holder| holder != key);
    }

    fn give_address(
        &mut self,
        key: &Key,
        service: &mut Value,
        random: u64,
        grant: &mut Grant,
        problems: &mut Problems,
    ) {
        if service["spec"]["type"] == "ExternalName" {
            return;
        }
        let wanted = service["spec"]["clusterIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let given = match wanted.as_str() {
            "None" => "None".to_owned(),
            "" => {
                let Some(free) = self.free_address(random) else {
                    problems.invalid("spec.clusterIP", &Value::Null, "no address is free");
                    return;
                };
                self.addresses.insert(free, key.clone());
                grant.addresses.push(free);
                Ipv4Addr::from(free).to_string()
            }
            text => match address(&service["spec"]["clusterIP"]) {
                Some(address) if self.addresses.get(&address).is_some_and(|holder| holder != key) => {
                    problems.invalid(
                        "spec.clusterIPs",
                        &Value::from(vec![text]),
                        format!("failed to allocate IP {text}: provided IP is already allocated"),
                    );
                    return;
                }
                Some(address) => {
                    if self.addresses.insert(address, key.clone()).is_none() {
                        grant.addresses.push(address);
                    }
                    text.to_owned()
                }
                None => {
                    problems.invalid(
                        "spec.clusterIPs",
                        &Value::from(vec![text]),
                        format!("failed to allocate IP {text}: the provided IP is not in the valid range"),
                    );
                    return;
                }
            },
        };
        let spec = &mut service["spec"];
        spec["clusterIPs"] = Value::from(vec![given.as_str()]);
        spec["clusterIP"] = Value::from(given);
        crate::strategy::default_field(spec, "ipFamilies", Value::from(vec!["IPv4"]));
        crate::strategy::default_field(spec, "ipFamilyPolicy", "SingleStack");
    }

    fn free_address(&self, random: u64) -> Option<u32> {
        let span = u64::from(SIZE - RESERVED - 1);
        (0..span).find_map(|step| {
            let offset = u32::try_from((random % span + step) % span).ok()? + RESERVED;
            let address = NETWORK + offset;
            (!self.addresses.contains_key(&address)).then_some(address)
        })
    }

    fn give_ports(
        &mut self,
        key: &Key,
        service: &mut Value,
        random: u64,
        grant: &mut Grant,
        problems: &mut Problems,
    ) {
        let nodes = match service["spec"]["type"].as_str() {
            Some("NodePort") => true,
            Some("LoadBalancer") => service["spec"]["allocateLoadBalancerNodePorts"] != false,
            _ => false,
        };
        for (index, port) in items_mut(service, &["spec", "ports"]).enumerate() {
            let wanted = port["nodePort"].as_u64().unwrap_or(0);
            if !nodes {
                if let Some(port) = port.as_object_mut() {
                    port.remove("nodePort");
                }
                continue;
            }
            let path = format!("spec.ports[{index}].nodePort");
            let given = if wanted == 0 {
                self.free_port(random)
            } else {
                match u16::try_from(wanted) {
                    Ok(number) if !NODE_PORTS.contains(&number) => {
                        problems.invalid(path, &Value::from(wanted), "provided port is not in the valid range. The range of valid ports is 30000-32767");
                        continue;
                    }
                    Ok(number) if self.ports.get(&number).is_some_and(|holder| holder != key) => {
                        problems.invalid(path, &Value::from(wanted), "provided port is already allocated");
                        continue;
                    }
                    Ok(number) => Some(number),
                    Err(_) => None,
                }
            };
            match given {
                Some(number) => {
                    if self.ports.insert(number, key.clone()).is_none() {
                        grant.ports.push(number);
                    }
                    port["nodePort"] = Value::from(number);
                }
                None => problems.invalid(path, &Value::from(wanted), "no port is free"),
            }
        }
    }

    fn free_port(&self, random: u64) -> Option<u16> {
        let span = u64::from(NODE_PORTS.end() - NODE_PORTS.start()) + 1;
        (0..span).find_map(|step| {
            let port = NODE_PORTS.start() + u16::try_from((random % span + step) % span).ok()?;
            (!self.ports.contains_key(&port)).then_some(port)
        })
    }
}

/// An address of the network as a number.
fn address(value: &Value) -> Option<u32> {
    let address: Ipv4Addr = value.as_str()?.parse().ok()?;
    let number = u32::from(address);
    (NETWORK < number && number < NETWORK + SIZE - 1).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn gives_each_address_once_and_takes_it_back() {
        let mut taken = Taken::default();
        let key = |name: &str| Key::new(&Resource::new("", "services"), "a", name);
        let give = |taken: &mut Taken, name: &str, spec: Value| {
            let mut service = json!({"spec": spec});
            let mut problems = Problems::default();
            let mut grant = Grant::default();
            taken.give_address(&key(name), &mut service, 7, &mut grant, &mut problems);
            taken.give_ports(&key(name), &mut service, 7, &mut grant, &mut problems);
            (service, problems.into_causes().len())
        };
        let (first, _) = give(
            &mut taken,
            "one",
            json!({"type": "NodePort", "ports": [{"port": 80}]}),
        );
        assert_eq!(first["spec"]["clusterIP"], "10.96.1.7");
        assert_eq!(first["spec"]["ports"][0]["nodePort"], 30_007);
        let (second, _) = give(
            &mut taken,
            "two",
            json!({"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 5}]}),
        );
        assert_eq!(second["spec"]["clusterIP"], "10.96.1.8");
        assert!(second["spec"]["ports"][0]["nodePort"].is_null());
        let (_, problems) = give(&mut taken, "three", json!({"clusterIP": "10.96.1.7"}));
        assert_eq!(problems, 1);
        let (again, problems) = give(&mut taken, "one", first["spec"].clone());
        assert_eq!(
            (again["spec"]["clusterIP"].as_str(), problems),
            (Some("10.96.1.7"), 0)
        );
        taken.release(&key("one"));
        let (_, problems) = give(&mut taken, "three", json!({"clusterIP": "10.96.1.7"}));
        assert_eq!(problems, 0);
        let (headless, _) = give(&mut taken, "four", json!({"clusterIP": "None"}));
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    }
}
