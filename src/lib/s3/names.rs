//! Host names, without the C library's resolver: a static binary has none that works.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;

/// Looks names up as `/etc/hosts` and `/etc/resolv.conf` say.
#[derive(Debug, Clone, Default)]
pub struct Names {
    resolver: Arc<OnceLock<TokioResolver>>,
}

impl Names {
    fn resolver(&self) -> Result<&TokioResolver, ResolveDnsError> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver);
        }
        let mut builder = TokioResolver::builder_tokio().map_err(ResolveDnsError::new)?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
        let made = builder.build().map_err(ResolveDnsError::new)?;
        Ok(self.resolver.get_or_init(|| made))
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ResolveDnsError> {
        let found = self.resolver()?.lookup_ip(name).await.map_err(ResolveDnsError::new)?;
        Ok(found.iter().collect())
    }
}

impl ResolveDns for Names {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(self.look_up(name))
    }
}
