//! The rules for images: create, delete, restore, and what an import becomes; pure.
//!
//! Errors are the replies that the cloud gives (vco-api.md 3.2).

use std::time::Duration;

use super::format::Content;
use super::reply::Reply;
use super::rules::FailedImport;
use super::world::{Image, Status, World};

/// An import that runs, or has ended and is not due yet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) location: String,
    pub(super) image_id: u64,
    /// On the cloud's clock; the image does not leave CREATING before that.
    pub(super) due: Duration,
    pub(super) outcome: Option<Result<Content, String>>,
}

/// Applies every import that has ended and is due; says whether one is due that still runs.
pub(super) fn settle(world: &mut World, jobs: &mut Vec<Job>, now: Duration) -> bool {
    jobs.retain_mut(|job| match job.outcome.take() {
        Some(outcome) if job.due <= now => {
            conclude(world, job, outcome);
            false
        }
        outcome => {
            job.outcome = outcome;
            true
        }
    });
    jobs.iter().any(|job| job.due <= now)
}

fn conclude(world: &mut World, job: &Job, outcome: Result<Content, String>) {
    let rule = world.rules.failed_import;
    let Some(site) = world.find_site(&job.location) else { return };
    let outcome = if site.imports_fail { Err("imports fail here".into()) } else { outcome };
    let image = site.image_mut(job.image_id).filter(|i| i.status == Status::Creating);
    match (image, outcome) {
        (None, _) => {}
        (Some(image), Ok(content)) => {
            image.status = Status::Created;
            image.bytes = content.bytes;
            image.virtual_bytes = content.virtual_bytes;
            image.format = content.format.into();
        }
        (Some(image), Err(why)) => {
            image.failure = Some(why);
            image.status = match rule {
                FailedImport::Error => Status::Error,
                FailedImport::StaysCreating => Status::Creating,
                FailedImport::Vanishes => Status::Destroyed,
            };
        }
    }
}

/// Whether a customer may create an image of this name here.
pub(super) fn may_create(world: &mut World, location: &str, image: &Image) -> Result<(), Reply> {
    let (unique, binned) = (world.rules.unique_names, world.rules.binned_names_reserved);
    let site = world.find_site(location).ok_or_else(no_access)?;
    if site.storage_only {
        return Err(Reply::error(400, format!("Location {location} is storage only")));
    }
    if image.name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: name is empty"));
    }
    let mut own = site.images.iter().filter(|i| i.customer_id == image.customer_id);
    let counts = |i: &Image| match i.status {
        Status::Destroyed => false,
        Status::Deleted => binned,
        _ => true,
    };
    if unique && own.any(|i| i.name == image.name && counts(i)) {
        return Err(Reply::error(409, format!("Image with name {} already exists", image.name)));
    }
    Ok(())
}

/// Adds the image, CREATING; returns its number.
pub(super) fn create(world: &mut World, location: &str, image: Image) -> Result<u64, Reply> {
    may_create(world, location, &image)?;
    let site = world.find_site(location).ok_or_else(no_access)?;
    site.remember();
    Ok(site.add_image(Image { status: Status::Creating, ..image }))
}

/// How long an import takes at least.
pub(super) fn import_time(world: &mut World, location: &str) -> Duration {
    let usual = world.rules.import_time;
    world.find_site(location).and_then(|s| s.import_time).unwrap_or(usual)
}

/// `DELETE`: into the recycle bin, or for good.
pub(super) fn delete(
    world: &mut World,
    customer: &str,
    location: &str,
    image_id: u64,
    permanently: bool,
) -> Reply {
    if let Err(reply) = may_delete(world, customer, location, image_id, permanently) {
        return reply;
    }
    let Some(site) = world.find_site(location) else { return no_access() };
    site.remember();
    if let Some(image) = site.image_mut(image_id) {
        image.status = if permanently { Status::Destroyed } else { Status::Deleted };
    }
    Reply::success()
}

fn may_delete(
    world: &mut World,
    customer: &str,
    location: &str,
    image_id: u64,
    permanently: bool,
) -> Result<(), Reply> {
    let (rules, in_use) = (world.rules.clone(), world.in_use(location, image_id));
    let site = world.find_site(location).ok_or_else(no_access)?;
    let image = own(site.image(image_id), customer, rules.gone_status)?;
    if image.public {
        return Err(Reply::error(405, "Can not delete a system image"));
    }
    match image.status {
        Status::Creating if !rules.delete_unfinished => {
            Err(Reply::error(403, "Can not delete an image before it is created"))
        }
        Status::Error if !rules.delete_failed => {
            Err(Reply::error(403, "Can not delete an image that was not created"))
        }
        Status::Deleted if !permanently => Err(gone(rules.gone_status)),
        _ if permanently && in_use => {
            Err(Reply::error(409, "Image is still used by virtual machines"))
        }
        _ => Ok(()),
    }
}

/// `PUT …/restore`: out of the recycle bin; only from there, else 400 (G8S on cloudspaces).
pub(super) fn restore(world: &mut World, customer: &str, location: &str, image_id: u64) -> Reply {
    let rules = world.rules.clone();
    let Some(site) = world.find_site(location) else { return no_access() };
    let (id, name) = match own(site.image(image_id), customer, rules.gone_status) {
        Ok(image) if image.status == Status::Deleted => (image.image_id, image.name.clone()),
        Ok(_) => return Reply::error(400, "Only deleted images can be restored"),
        Err(reply) => return reply,
    };
    let rival = |i: &Image| {
        i.image_id != id
            && i.name == name
            && i.customer_id == customer
            && !matches!(i.status, Status::Deleted | Status::Destroyed)
    };
    if rules.unique_names && site.images.iter().any(rival) {
        return Reply::error(409, format!("Image with name {name} already exists"));
    }
    site.remember();
    if let Some(image) = site.image_mut(id) {
        image.status = Status::Created;
    }
    Reply::success()
}

/// The image if it is there for this customer: what others own is as good as absent.
fn own<'w>(image: Option<&'w Image>, customer: &str, gone_status: u16) -> Result<&'w Image, Reply> {
    match image {
        Some(i) if i.status == Status::Destroyed => Err(gone(gone_status)),
        Some(i) if i.public || i.customer_id == customer => Ok(i),
        _ => Err(Reply::error(404, "Image not found")),
    }
}

/// The answer about something that was deleted.
pub(super) fn gone(status: u16) -> Reply {
    Reply::error(status, "Image not found or deleted")
}

/// The answer about a location that is not the customer's.
pub(super) fn no_access() -> Reply {
    Reply::error(403, "Forbidden: Customer has no access to location")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "be-mac-dc01-001";

    fn image(name: &str) -> Image {
        Image { name: name.into(), customer_id: "acme_1".into(), ..Image::default() }
    }

    fn world_with(status: Status) -> (World, u64) {
        let mut world = World::small();
        let id = world.site(HERE).add_image(Image { status, ..image("k8s") });
        (world, id)
    }

    fn status_of(world: &mut World, id: u64) -> Status {
        world.site(HERE).image(id).unwrap().status
    }

    #[test]
    fn deletes_by_state() {
        for (status, permanently, code, becomes) in [
            (Status::Created, false, 200, Status::Deleted),
            (Status::Created, true, 200, Status::Destroyed),
            (Status::Creating, true, 403, Status::Creating),
            (Status::Error, true, 200, Status::Destroyed),
            (Status::Deleted, true, 200, Status::Destroyed),
            (Status::Deleted, false, 404, Status::Deleted),
            (Status::Destroyed, true, 404, Status::Destroyed),
        ] {
            let (mut world, id) = world_with(status);
            let reply = delete(&mut world, "acme_1", HERE, id, permanently);
            assert_eq!(reply.status, code, "{status} {permanently}");
            assert_eq!(status_of(&mut world, id), becomes, "{status} {permanently}");
        }
    }

    #[test]
    fn deletes_by_rule() {
        let (mut world, id) = world_with(Status::Creating);
        world.rules.delete_unfinished = true;
        assert_eq!(delete(&mut world, "acme_1", HERE, id, true).status, 200);
        let (mut world, id) = world_with(Status::Error);
        world.rules.delete_failed = false;
        assert_eq!(delete(&mut world, "acme_1", HERE, id, true).status, 403);
        world.rules.gone_status = 400;
        world.site(HERE).image_mut(id).unwrap().status = Status::Destroyed;
        assert_eq!(delete(&mut world, "acme_1", HERE, id, true).status, 400);
    }

    #[test]
    fn public_foreign_and_used_images_stay() {
        let (mut world, id) = world_with(Status::Created);
        assert_eq!(delete(&mut world, "acme_1", HERE, 100, true).status, 405);
        assert_eq!(delete(&mut world, "other_1", HERE, id, true).status, 404);
        assert_eq!(delete(&mut world, "acme_1", HERE, 9999, true).status, 404);
        assert_eq!(delete(&mut world, "acme_1", "nowhere", id, true).status, 403);
        world.add_vm(HERE, id, "node-1");
        assert_eq!(delete(&mut world, "acme_1", HERE, id, true).status, 409);
        assert_eq!(delete(&mut world, "acme_1", HERE, id, false).status, 200);
    }

    #[test]
    fn restores_only_what_is_in_the_bin() {
        for (status, code) in [
            (Status::Deleted, 200),
            (Status::Created, 400),
            (Status::Creating, 400),
            (Status::Destroyed, 404),
        ] {
            let (mut world, id) = world_with(status);
            assert_eq!(restore(&mut world, "acme_1", HERE, id).status, code, "{status}");
        }
        let (mut world, id) = world_with(Status::Deleted);
        world.site(HERE).add_image(image("k8s"));
        world.rules.unique_names = true;
        assert_eq!(restore(&mut world, "acme_1", HERE, id).status, 409);
    }

    #[test]
    fn creates_by_name_and_location() {
        let (mut world, _) = world_with(Status::Deleted);
        assert!(create(&mut world, HERE, image("k8s")).is_ok(), "names may repeat");
        world.rules.unique_names = true;
        assert_eq!(create(&mut world, HERE, image("k8s")).unwrap_err().status, 409);
        assert!(create(&mut world, "nl-rmd-dc01-001", image("k8s")).is_ok());
        assert_eq!(create(&mut world, HERE, image(" ")).unwrap_err().status, 400);
        assert_eq!(create(&mut world, "nowhere", image("x")).unwrap_err().status, 403);
        world.site(HERE).storage_only = true;
        assert_eq!(create(&mut world, HERE, image("x")).unwrap_err().status, 400);

        let (mut world, _) = world_with(Status::Deleted);
        world.rules.unique_names = true;
        assert_eq!(create(&mut world, HERE, image("k8s")).unwrap_err().status, 409);
        world.rules.binned_names_reserved = false;
        assert!(create(&mut world, HERE, image("k8s")).is_ok());
    }

    #[test]
    fn imports_conclude_when_they_are_due() {
        let content = || Content { format: "raw", bytes: 7, virtual_bytes: 7 };
        let bad = || Err("no".to_owned());
        for (rule, outcome, becomes) in [
            (FailedImport::Error, Ok(content()), Status::Created),
            (FailedImport::Error, bad(), Status::Error),
            (FailedImport::StaysCreating, bad(), Status::Creating),
            (FailedImport::Vanishes, bad(), Status::Destroyed),
        ] {
            let mut world = World::small();
            world.rules.failed_import = rule;
            let image_id = create(&mut world, HERE, image("k8s")).unwrap();
            let due = Duration::from_secs(10);
            let mut jobs = vec![Job { location: HERE.into(), image_id, due, outcome: None }];
            assert!(!settle(&mut world, &mut jobs, Duration::from_secs(9)), "not due");
            assert!(settle(&mut world, &mut jobs, due), "due, but it runs");
            jobs[0].outcome = Some(outcome);
            assert!(!settle(&mut world, &mut jobs, Duration::from_secs(9)));
            assert_eq!(status_of(&mut world, image_id), Status::Creating);
            assert!(!settle(&mut world, &mut jobs, due));
            assert_eq!(status_of(&mut world, image_id), becomes, "{rule:?}");
            assert!(jobs.is_empty());
        }
    }
}
