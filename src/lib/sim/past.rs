//! What lists show where they lag behind: the world before the last write.

use std::collections::HashMap;

use super::call::Call;
use super::world::{Cloudspace, Disk, Site, World};

/// Everything of a location, or of one cloudspace.
#[derive(Debug, Clone)]
enum Past {
    Location(Box<Site>, Vec<Cloudspace>),
    Cloudspace(Option<Box<Cloudspace>>, Vec<Disk>),
}

/// The last states, by location and by cloudspace.
#[derive(Debug, Default)]
pub(super) struct Pasts(HashMap<String, Past>);

/// A state that becomes the last one if the write happens.
pub(super) struct Before(Vec<(String, Past)>);

impl Pasts {
    /// The state of what a write is about.
    pub(super) fn before(world: &World, call: &Call) -> Before {
        let Some(location) = call.location() else { return Before(Vec::new()) };
        let Some(site) = world.locations.iter().find(|s| s.location == location) else {
            return Before(Vec::new());
        };
        let here = world.cloudspaces.iter().filter(|c| c.location == location);
        let here: Vec<Cloudspace> = here.cloned().collect();
        let mut before = vec![(location, Past::Location(Box::new(site.clone()), here))];
        let id = call.in_path("cloudspace_id");
        if !id.is_empty() {
            let space = world.cloudspace(id).cloned().map(Box::new);
            before.push((id.to_owned(), Past::Cloudspace(space, site.disks.clone())));
        }
        Before(before)
    }

    pub(super) fn remember(&mut self, before: Before) {
        self.0.extend(before.0);
    }

    /// The world as the call's list would show it late.
    pub(super) fn world(&self, now: &World, call: &Call) -> World {
        let mut world = now.clone();
        let id = call.in_path("cloudspace_id");
        let location = call.location();
        for (key, past) in &self.0 {
            let wanted = match past {
                _ if !id.is_empty() => key == id,
                Past::Cloudspace(..) => false,
                Past::Location(..) => location.as_ref().is_none_or(|l| l == key),
            };
            if wanted {
                past.clone().restore(key, &mut world);
            }
        }
        world
    }
}

impl Past {
    fn restore(self, key: &str, world: &mut World) {
        match self {
            Self::Location(site, spaces) => {
                world.cloudspaces.retain(|c| c.location != key);
                world.cloudspaces.extend(spaces);
                if let Some(there) = world.find_site(key) {
                    *there = *site;
                }
            }
            Self::Cloudspace(space, disks) => {
                world.cloudspaces.retain(|c| c.cloudspace_id != key);
                if let Some(space) = space {
                    if let Some(site) = world.find_site(&space.location) {
                        site.disks = disks;
                    }
                    world.cloudspaces.push(*space);
                }
            }
        }
    }
}
