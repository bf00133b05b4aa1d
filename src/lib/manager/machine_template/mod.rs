//! `VCOMachineTemplate`: what an autoscaler that starts from no machine has to know.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;

use super::apply;
use super::context::Context;
use super::controller::Controller;
use super::error::Error;
use super::queue::{Key, Queue};
use super::step::Step;
use crate::api::VCOMachineTemplate;
use crate::api::machine::VCOMachineSpec;
use crate::api::machine_template::{NodeInfo, VCOMachineTemplateStatus};

/// Looks after templates of machines.
pub struct Templates;

impl Controller for Templates {
    const NAME: &'static str = "vcomachinetemplate";

    fn queue(context: &Context) -> &Queue {
        &context.queues.templates
    }

    async fn pass(context: &Arc<Context>, key: &Key) -> Result<Step, Error> {
        let Some(template) = context.templates.get(key) else { return Ok(Step::Over) };
        let status = status(&template.spec.template.spec);
        let paused = crate::api::contract::annotation(
            &template.metadata,
            crate::api::names::PAUSED_ANNOTATION,
        );
        let going = template.metadata.deletion_timestamp.is_some();
        if template.status.as_ref() == Some(&status) || paused.is_some() || going {
            return Ok(Step::Waits);
        }
        let api = context.api::<VCOMachineTemplate>(&template.namespace().unwrap_or_default());
        let body = serde_json::to_value(&status).unwrap_or_default();
        context.templates.wrote(apply::status(&api, &template, &body).await?);
        Ok(Step::Waits)
    }
}

/// What a machine of this spec has. The architecture is the one that the cloud has.
fn status(spec: &VCOMachineSpec) -> VCOMachineTemplateStatus {
    let capacity = BTreeMap::from([
        ("cpu".to_owned(), spec.vcpus.to_string()),
        ("memory".to_owned(), format!("{}Mi", spec.memory_mib)),
        ("ephemeral-storage".to_owned(), format!("{}Gi", spec.boot_disk_gib)),
    ]);
    let node_info = NodeInfo {
        architecture: Some("amd64".to_owned()),
        operating_system: Some("linux".to_owned()),
    };
    VCOMachineTemplateStatus { capacity: Some(capacity), node_info: Some(node_info) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_reads_quantities() {
        let spec = serde_json::from_value(serde_json::json!({
            "imageId": 4, "vcpus": 2, "memoryMiB": 4096, "bootDiskGiB": 20,
        }))
        .unwrap();
        let capacity = status(&spec).capacity.unwrap();
        assert_eq!([&capacity["cpu"], &capacity["memory"]], ["2", "4096Mi"]);
        assert_eq!(capacity["ephemeral-storage"], "20Gi");
    }
}
