//! Stand-ins for parts of `machinery` and `codec` that are still being built.

pub(crate) mod schema {
    use machinery::Cause;
    use serde_json::Value;

    #[derive(Debug)]
    pub(crate) struct Schema;

    impl Schema {
        pub(crate) fn from_openapi(_: &Value) -> Result<Self, std::convert::Infallible> {
            Ok(Self)
        }
        pub(crate) fn prune(&self, _: &mut Value) -> Vec<String> {
            Vec::new()
        }
        pub(crate) fn default(&self, _: &mut Value) {}
        pub(crate) fn validate(&self, _: &Value) -> Vec<Cause> {
            Vec::new()
        }
    }
}

pub(crate) mod builtin {
    pub(crate) fn schema(_: &machinery::Gvk) -> Option<&'static super::schema::Schema> {
        None
    }
}

pub(crate) mod protobuf {
    use bytes::Bytes;
    use serde_json::Value;

    pub(crate) fn decode(_: &[u8]) -> Result<Value, &'static str> {
        Err("protobuf is not spoken yet")
    }
    pub(crate) fn encode(_: &Value) -> Result<Bytes, &'static str> {
        Err("protobuf is not spoken yet")
    }
    pub(crate) fn encode_watch_event(_: &str, _: &Value) -> Result<Bytes, &'static str> {
        Err("protobuf is not spoken yet")
    }
}

pub(crate) mod patch {
    use serde_json::Value;

    use super::schema::Schema;

    pub(crate) fn json_patch(_: &Value, _: &Value) -> Result<Value, &'static str> {
        Err("JSON patches are not spoken yet")
    }
    pub(crate) fn strategic_merge(doc: &Value, patch: &Value, _: &Schema) -> Result<Value, &'static str> {
        let mut doc = doc.clone();
        merge_patch(&mut doc, patch);
        Ok(doc)
    }
    pub(crate) fn merge_patch(doc: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *doc = patch.clone();
            return;
        };
        if !doc.is_object() {
            *doc = Value::Object(serde_json::Map::new());
        }
        let map = doc.as_object_mut().expect("made an object above");
        for (key, value) in patch {
            if value.is_null() {
                map.remove(key);
            } else {
                merge_patch(map.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }
}
