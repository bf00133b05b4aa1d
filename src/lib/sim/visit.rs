//! One call about cloudspaces and what is in them, on its way through the world: what it may see.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call::Call;
use super::doing::idle;
use super::objectspace::record::Note;
use super::reply::Reply;
use super::world::{Cloudspace, Disk, Site, Vm, World};

/// A call, and the world it is about.
pub(super) struct Visit<'a> {
    pub(super) world: &'a mut World,
    pub(super) call: &'a Call,
    pub(super) body: &'a Value,
    /// On the cloud's clock.
    pub(super) now: Duration,
    /// The same, in seconds since 1970.
    pub(super) unix: f64,
    /// The location that a fault breaks.
    pub(super) broken: Option<&'a str>,
}

/// Which of several things of an id are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that are in use.
    Living,
    /// Those in the recycle bin too.
    Binned,
}

/// What a call does with notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noting {
    List,
    Add,
    Change,
    Delete,
}

impl Visit<'_> {
    pub(super) fn customer(&self) -> &str {
        self.call.in_path("customer_id")
    }

    /// A number of the query.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.call.arg(name).and_then(|text| text.parse().ok())
    }

    /// A number of the query that cannot be negative.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.call.arg(name).and_then(|text| text.parse().ok())
    }

    /// A text of the query, empty where it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.call.arg(name).unwrap_or_default()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.call.flag(name, false)
    }

    /// The answer about something that was deleted (vco-api.md 13.3 no. 6: 404 or 400).
    pub(super) fn gone(&self, what: &str) -> Reply {
        let status = self.world.rules.gone_status;
        Reply::error(status, format!("{what} not found or deleted"))
    }

    /// Whether the back-end of a location answers.
    pub(super) fn reach(&self, location: &str) -> Result<(), Reply> {
        let down = self.world.locations.iter().any(|s| s.location == location && s.down);
        if down || self.broken == Some(location) {
            return Err(Reply::error(503, format!("G8Error: location {location} does not answer")));
        }
        Ok(())
    }

    /// The place of the cloudspace of the path among all.
    pub(super) fn space_at(&self, which: Which) -> Result<usize, Reply> {
        let id = self.call.in_path("cloudspace_id");
        let mine = |c: &Cloudspace| c.cloudspace_id == id && c.customer_id == self.customer();
        let at = self.world.cloudspaces.iter().position(mine);
        let at = at.ok_or_else(|| Reply::error(404, "Cloudspace not found"))?;
        let space = &self.world.cloudspaces[at];
        self.reach(&space.location)?;
        match space.status.as_str() {
            "DESTROYED" => Err(self.gone("Cloudspace")),
            "DELETED" if which == Which::Living => Err(self.gone("Cloudspace")),
            _ => Ok(at),
        }
    }

    pub(super) fn space(&self) -> Result<&Cloudspace, Reply> {
        Ok(&self.world.cloudspaces[self.space_at(Which::Living)?])
    }

    pub(super) fn space_mut(&mut self) -> Result<&mut Cloudspace, Reply> {
        let at = self.space_at(Which::Living)?;
        Ok(&mut self.world.cloudspaces[at])
    }

    /// The cloudspace, which works; else 400 (vco-api.md 7.1, G8S).
    pub(super) fn working(&mut self) -> Result<&mut Cloudspace, Reply> {
        let space = self.space_mut()?;
        if !space.works() {
            return Err(Reply::error(400, format!("Cloudspace is {}", space.shown())));
        }
        Ok(space)
    }

    pub(super) fn location(&self) -> Result<String, Reply> {
        Ok(self.space()?.location.clone())
    }

    /// The places of the cloudspace and of the machine of the path.
    pub(super) fn vm_at(&self, which: Which) -> Result<(usize, usize), Reply> {
        self.numbered_vm_at(self.call.number("vm_id"), which)
    }

    /// The same for a machine that the query names.
    pub(super) fn numbered_vm_at(&self, id: u64, which: Which) -> Result<(usize, usize), Reply> {
        let at = self.space_at(Which::Living)?;
        let vms = &self.world.cloudspaces[at].vms;
        let index = vms.iter().position(|vm| vm.vm_id == id);
        let index = index.ok_or_else(|| Reply::error(404, "Virtual machine not found"))?;
        match vms[index].status.as_str() {
            "DESTROYED" => Err(self.gone("Virtual machine")),
            "DELETED" if which == Which::Living => Err(self.gone("Virtual machine")),
            _ => Ok((at, index)),
        }
    }

    pub(super) fn vm(&self) -> Result<&Vm, Reply> {
        let (at, index) = self.vm_at(Which::Living)?;
        Ok(&self.world.cloudspaces[at].vms[index])
    }

    pub(super) fn vm_mut(&mut self) -> Result<&mut Vm, Reply> {
        let (at, index) = self.vm_at(Which::Living)?;
        self.world.cloudspaces[at].vms[index].updated = self.unix;
        Ok(&mut self.world.cloudspaces[at].vms[index])
    }

    /// The machine, to which nothing is being done.
    pub(super) fn idle_vm(&mut self) -> Result<&mut Vm, Reply> {
        let vm = self.vm_mut()?;
        idle("Virtual machine", vm.doing.as_ref())?;
        Ok(vm)
    }

    pub(super) fn site(&mut self, location: &str) -> Result<&mut Site, Reply> {
        self.world.find_site(location).ok_or_else(super::images::no_access)
    }

    /// The customer's disk of this number in a location.
    pub(super) fn disk_in(
        &mut self,
        location: &str,
        disk_id: u64,
        which: Which,
    ) -> Result<&mut Disk, Reply> {
        let customer = self.customer().to_owned();
        let gone = self.gone("Disk");
        let disk = self.site(location)?.disk_mut(disk_id);
        let disk = disk.filter(|disk| disk.customer_id == customer);
        let disk = disk.ok_or_else(|| Reply::error(404, "Disk not found"))?;
        if !disk.exists() || (disk.is_binned() && which == Which::Living) {
            return Err(gone);
        }
        Ok(disk)
    }

    /// `GET`, `POST`, `PUT`, `DELETE …/notes` (vco-api.md 4.8); `notes` picks them.
    pub(super) fn notes(
        &mut self,
        noting: Noting,
        notes: impl FnOnce(&mut Self) -> Result<&mut Vec<Note>, Reply>,
    ) -> Result<Reply, Reply> {
        let (now, id) = (self.unix, self.call.in_path("note_id").to_owned());
        let said = |key: &str| self.body[key].as_str().unwrap_or_default().to_owned();
        let (title, content) = (said("title"), said("content"));
        let username = self.world.username.clone();
        let notes = notes(self)?;
        let at = notes.iter().position(|n| n.id == id);
        match (noting, at) {
            (Noting::List, _) => {
                return Ok(Reply::json(super::objectspace::words::notes(notes, &username)));
            }
            (Noting::Add, _) => {
                let numbers = notes.iter().filter_map(|n| n.id.strip_prefix("note-")?.parse().ok());
                let id = format!("note-{}", numbers.max().unwrap_or(0_u64) + 1);
                notes.push(Note { id, title, content, created: now, updated: now });
            }
            (Noting::Change, Some(at)) => {
                let created = notes[at].created;
                notes[at] = Note { id, title, content, created, updated: now };
            }
            (Noting::Delete, Some(at)) => drop(notes.remove(at)),
            (_, None) => return Err(Reply::error(404, "Note not found")),
        }
        Ok(Reply::success())
    }
}

/// A list in the usual envelope (vco-api.md 12.4).
pub(super) fn result(rows: impl IntoIterator<Item = Value>) -> Reply {
    Reply::json(json!({ "result": rows.into_iter().collect::<Vec<_>>() }))
}

/// Seconds since 1970 as a whole number.
pub(super) fn whole(unix: f64) -> i64 {
    format!("{unix:.0}").parse().unwrap_or_default()
}

/// An object of a body; empty where it is not there.
pub(super) fn object<'a>(body: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    body[key].as_object()
}
