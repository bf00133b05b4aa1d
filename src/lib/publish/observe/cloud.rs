//! Looks at the customer's locations: which there are, what has the image's name there, who uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, join_all};

use super::lanes::{self, Lane};
use crate::clock::Clock;
use crate::fault::{Class, Fault as _};
use crate::id::{ImageId, Location};
use crate::publish::error::Problem;
use crate::publish::mark::{self, Mark};
use crate::publish::plan::{Had, Seen};
use crate::publish::request::{Places, Request, Settings};
use crate::publish::state::State;
use crate::vco::{self, Customer, DeletedImages, Image};

/// What to look for at a location.
#[derive(Debug)]
pub struct Look {
    name: String,
    settings: Settings,
    replace: bool,
}

impl Look {
    /// What this request needs to know.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        let settings = request.settings.clone();
        Self { name: request.name.clone(), settings, replace: request.replace }
    }
}

/// The locations of a request, or what is wrong with it.
#[derive(Debug)]
pub struct Looked<T: Clone> {
    /// The locations in order, each with what was seen, or why not.
    pub places: Vec<(Location, Lane<T>)>,
    /// Wrong inputs.
    pub problems: Vec<Problem>,
    /// What holds for the whole run.
    pub warnings: Vec<String>,
}

/// How to wait for locations.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// Time.
    pub clock: &'a dyn Clock,
    /// After how long without any answer the silent ones are late; `None`: never.
    pub patience: Option<Duration>,
}

/// What a location turns out to be.
#[derive(Debug, Clone)]
enum Found<T> {
    /// It can host VMs; and what was seen.
    Open(T),
    /// It only stores data.
    StorageOnly,
    /// The list is about prices and may name locations we may not enter.
    Unknown(Problem),
}

/// Looks at everything in the cloud that matters.
pub async fn look(customer: &Customer, asked: &Places, what: Look, wait: Wait<'_>) -> Looked<Seen> {
    let (names, system, bin) = tokio::join!(
        names(customer, asked),
        os_name(customer, &what.settings),
        bin(customer, wait)
    );
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    match system {
        Ok(warning) => warnings.extend(warning),
        Err(problem) => problems.push(problem),
    }
    let shared = Arc::new((what, bin));
    let inside = move |customer: Customer, at: Location| {
        let shared = shared.clone();
        async move {
            let (what, bin) = &*shared;
            seen(&customer, &at, what, bin.as_ref()).await.map_err(|error| Problem::of(&error))
        }
        .boxed()
    };
    let mut looked = each(customer, asked, names, wait, Arc::new(inside)).await;
    problems.append(&mut looked.problems);
    warnings.append(&mut looked.warnings);
    Looked { places: looked.places, problems, warnings }
}

/// What the cloud says against the inputs, by a few short calls.
pub async fn inputs(
    customer: &Customer,
    asked: &Places,
    settings: &Settings,
    wait: Wait<'_>,
) -> Vec<Problem> {
    let (mut problems, system) =
        tokio::join!(wrong_places(customer, asked, wait), os_name(customer, settings));
    problems.extend(system.err());
    problems
}

/// Only what is wrong with the locations that were asked for.
pub async fn wrong_places(customer: &Customer, asked: &Places, wait: Wait<'_>) -> Vec<Problem> {
    let names = names(customer, asked).await;
    let nothing = |_, _| async { Ok(()) }.boxed();
    each(customer, asked, names, wait, Arc::new(nothing)).await.problems
}

/// The bin only explains: without it, a taken name is the cloud's to explain.
async fn bin(customer: &Customer, wait: Wait<'_>) -> Option<DeletedImages> {
    let Some(patience) = wait.patience else { return customer.deleted_images().await.ok() };
    tokio::select! {
        bin = customer.deleted_images() => bin.ok(),
        () = wait.clock.sleep(patience) => None,
    }
}

/// The locations that were asked for and exist.
async fn names(customer: &Customer, asked: &Places) -> (Vec<Location>, Vec<Problem>) {
    let known = match customer.locations().await {
        Ok(known) => known,
        Err(error) => return (vec![], vec![Problem::of(&error)]),
    };
    let wanted = match asked {
        Places::All => known.clone(),
        Places::Named(named) => named.clone(),
    };
    let (there, unknown): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|at| known.contains(at));
    (there, unknown.iter().map(|at| no_such_location(at, &known)).collect())
}

/// What is done inside a location.
type Inside<T> =
    Arc<dyn Fn(Customer, Location) -> BoxFuture<'static, Result<T, Problem>> + Send + Sync>;

/// Enters every location that can host VMs and does `inside` there, side by side.
async fn each<T: Clone + Send + Sync + 'static>(
    customer: &Customer,
    asked: &Places,
    (there, wrong): (Vec<Location>, Vec<Problem>),
    wait: Wait<'_>,
    inside: Inside<T>,
) -> Looked<T> {
    let enter = |at: Location| {
        let look = enter(customer.clone(), at.clone(), inside.clone());
        (at, lanes::start(look))
    };
    let looks = there.into_iter().map(enter).collect();
    sort(asked, wrong, lanes::gather(looks, wait.clock, wait.patience).await)
}

async fn enter<T>(
    customer: Customer,
    at: Location,
    inside: Inside<T>,
) -> Result<Found<T>, Problem> {
    match customer.location(&at).await {
        Ok(info) if info.storage_only == Some(true) => Ok(Found::StorageOnly),
        Ok(_) => inside(customer, at).await.map(Found::Open),
        Err(error) if error.class() == Class::NotFound => Ok(Found::Unknown(Problem::of(&error))),
        Err(error) => Err(Problem::of(&error)),
    }
}

/// Tells wrong inputs from places to publish to; some that are wrong may be known before.
fn sort<T: Clone + Send + Sync + 'static>(
    asked: &Places,
    problems: Vec<Problem>,
    lanes: Vec<(Location, Lane<Found<T>>)>,
) -> Looked<T> {
    let mut looked = Looked { places: vec![], problems, warnings: vec![] };
    let mut without_vms = Vec::new();
    for (at, lane) in lanes {
        match lane {
            Lane::Seen(Found::Open(seen)) => looked.places.push((at, Lane::Seen(seen))),
            Lane::Seen(Found::StorageOnly) => without_vms.push(at),
            Lane::Seen(Found::Unknown(problem)) => looked.problems.push(problem),
            Lane::Failed(problem) => looked.places.push((at, Lane::Failed(problem))),
            Lane::Late(look) => {
                let name = at.clone();
                let open = move |found: Result<Found<T>, Problem>| match found? {
                    Found::Open(seen) => Ok(seen),
                    Found::StorageOnly => Err(Problem::refused(stores_only(&name))),
                    Found::Unknown(problem) => Err(problem),
                };
                looked.places.push((at, Lane::Late(look.map(open).boxed().shared())));
            }
        }
    }
    storage_only(asked, &without_vms, &mut looked);
    looked
}

fn stores_only(at: &Location) -> String {
    format!("location {at} only stores data and can host no VM")
}

fn no_such_location(at: &Location, known: &[Location]) -> Problem {
    let list = known.iter().map(Location::as_str).collect::<Vec<_>>().join(", ");
    let text = format!("location {at} is none of this customer's");
    let hint = if list.is_empty() {
        "the customer has no location".to_owned()
    } else {
        format!("there are: {list}")
    };
    Problem::new(Class::NotFound, text).hint(hint)
}

/// `all` means all that can host VMs; one that was named must be able to.
fn storage_only<T: Clone>(asked: &Places, without_vms: &[Location], looked: &mut Looked<T>) {
    for at in without_vms {
        let text = stores_only(at);
        match asked {
            Places::All => looked.warnings.push(format!("{text}; it is left out")),
            Places::Named(_) => looked.problems.push(Problem::refused(text)),
        }
    }
    if looked.places.is_empty() && looked.problems.is_empty() {
        looked.problems.push(Problem::refused("the customer has no location that can host VMs"));
    }
}

/// Checks the system's name against the cloud's own list, which may hold more than the vendor's
/// file (vco-api.md 3.2).
async fn os_name(customer: &Customer, settings: &Settings) -> Result<Option<String>, Problem> {
    let asked = settings.os_name();
    let list = match customer.os_names().await {
        Ok(list) => list,
        Err(error) => {
            let text =
                format!("-os-name {asked:?} could not be checked: {}", Problem::of(&error).text);
            return Ok(Some(text));
        }
    };
    known_os_name(asked, settings.os_type(), &list)
}

fn known_os_name(
    asked: &str,
    os_type: &str,
    list: &[(String, Vec<String>)],
) -> Result<Option<String>, Problem> {
    let kinds: Vec<&str> = list
        .iter()
        .filter(|(_, names)| names.iter().any(|name| name == asked))
        .map(|(kind, _)| kind.as_str())
        .collect();
    if list.is_empty() || kinds.contains(&os_type) {
        return Ok(None);
    }
    if let Some(kind) = kinds.first() {
        return Ok(Some(format!(
            "-os-name {asked:?} belongs to the OS type {kind}, not {os_type}"
        )));
    }
    let all = list.iter().flat_map(|(_, names)| names).map(String::as_str);
    let word = asked.split_whitespace().next().unwrap_or_default().to_lowercase();
    let (near, rest): (Vec<&str>, Vec<&str>) =
        all.partition(|name| name.to_lowercase().contains(&word));
    let shown = if near.is_empty() { rest } else { near };
    let text = format!("-os-name {asked:?} is unknown to the cloud");
    Err(Problem::refused(text).hint(format!("it knows: {}", shown.join(", "))))
}

/// Looks at the images of one location.
///
/// # Errors
/// The location could not be looked at.
pub async fn seen(
    customer: &Customer,
    at: &Location,
    what: &Look,
    bin: Option<&DeletedImages>,
) -> Result<Seen, vco::Error> {
    let listed = customer.images(at).await?;
    let binned = bin.and_then(|bin| bin.at(at).ok()).unwrap_or_default();
    let mut seen = Seen { ids: ids(&listed), ..Seen::default() };
    seen.ids.extend(ids(&binned));
    seen.had = own(&listed, &what.name, None);
    for had in own(&binned, &what.name, Some(State::Binned)) {
        if seen.had.iter().all(|other| other.id != had.id) {
            seen.had.push(had);
        }
    }
    details(customer, at, &what.settings, &mut seen.had).await?;
    let usable = seen.had.iter().filter(|had| had.state == State::Usable).count();
    if usable > 1 || (what.replace && !seen.had.is_empty()) {
        seen.users = users(customer, at, &seen.had).await?;
    }
    Ok(seen)
}

fn ids(images: &[Image]) -> BTreeSet<ImageId> {
    images.iter().filter_map(|image| image.id).collect()
}

/// The customer's own images of this name; public ones are the portal's.
#[must_use]
pub fn own(images: &[Image], name: &str, state: Option<State>) -> Vec<Had> {
    let ours = images
        .iter()
        .filter(|image| image.name.as_deref() == Some(name) && image.public != Some(true));
    ours.filter_map(|image| had(image, state)).collect()
}

fn had(image: &Image, state: Option<State>) -> Option<Had> {
    let tags = image.tags.as_deref().unwrap_or_default();
    Some(Had {
        id: image.id?,
        state: state.unwrap_or_else(|| State::of(image.status.as_deref())),
        status: image.status.clone().unwrap_or_else(|| "in no known state".to_owned()),
        mark: Mark::read(tags),
        settings: Settings {
            memory_mib: image.memory,
            boot_disk_gib: image.boot_disk_size,
            os_type: image.os_type.clone(),
            os_name: image.os_name.clone(),
            boot_type: image.boot_type.clone(),
            tags: Some(mark::users(tags)),
        },
    })
}

/// Lists carry neither `os_name` nor `boot_type` (vco-api.md 3.1): they are read one by one, and
/// only where they were asked for.
async fn details(
    customer: &Customer,
    at: &Location,
    asked: &Settings,
    all: &mut [Had],
) -> Result<(), vco::Error> {
    if asked.os_name.is_none() && asked.boot_type.is_none() {
        return Ok(());
    }
    for had in all.iter_mut().filter(|had| had.state == State::Usable) {
        if let Some(image) = customer.image(at, had.id).await? {
            had.settings.os_name = image.os_name;
            had.settings.boot_type = image.boot_type;
        }
    }
    Ok(())
}

/// The VMs of a location that were made from one of these images.
async fn users(
    customer: &Customer,
    at: &Location,
    images: &[Had],
) -> Result<BTreeMap<ImageId, Vec<String>>, vco::Error> {
    let gone = |status: Option<&String>| {
        status.is_some_and(|s| matches!(s.to_ascii_uppercase().as_str(), "DELETED" | "DESTROYED"))
    };
    let spaces = customer.cloudspaces(at).await?;
    let living = spaces.iter().filter(|space| !gone(space.status.as_ref()));
    let vms = join_all(living.map(|space| customer.vms(&space.id))).await;
    let mut users: BTreeMap<ImageId, Vec<String>> = BTreeMap::new();
    for vm in vms.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let image = vm.image_id.filter(|id| images.iter().any(|had| had.id == *id));
        // A binned VM still needs its image: only a destroyed one does not (vco-api.md 3.2, G8S).
        if let Some(image) = image.filter(|_| vm.status.as_deref() != Some("DESTROYED")) {
            users.entry(image).or_default().push(vm.name.unwrap_or_else(|| "a VM".to_owned()));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_names_are_held_against_the_clouds_list() {
        let list = vec![
            ("Linux".to_owned(), vec!["Linux - other".to_owned(), "Debian 10".to_owned()]),
            ("Other".to_owned(), vec!["Other - other".to_owned()]),
        ];
        let check = |name: &str, kind: &str| known_os_name(name, kind, &list);
        assert_eq!(check("Linux - other", "Linux"), Ok(None));
        assert!(check("Other - other", "Linux").unwrap().unwrap().contains("OS type Other"));
        let wrong = check("Debian 12", "Linux").unwrap_err();
        assert_eq!(wrong.hints, ["it knows: Debian 10"]);
        assert!(check("BeOS", "Linux").unwrap_err().hints[0].contains("Linux - other, Debian 10"));
        assert_eq!(known_os_name("x", "Linux", &[]), Ok(None));
    }

    #[test]
    fn an_unknown_location_names_the_known_ones() {
        let at = |text: &str| text.parse::<Location>().unwrap();
        let problem = no_such_location(&at("be-9"), &[at("be-1"), at("nl-1")]);
        assert_eq!(problem.hints, ["there are: be-1, nl-1"]);
        assert_eq!(problem.class, Class::NotFound);
    }

    #[test]
    fn all_leaves_out_what_hosts_no_vm_and_a_named_one_is_refused() {
        let at: Location = "be-1".parse().unwrap();
        let other = || ("nl-1".parse().unwrap(), Lane::Seen(()));
        let none = || Looked::<()> { places: vec![], problems: vec![], warnings: vec![] };
        let mut all = Looked { places: vec![other()], ..none() };
        storage_only(&Places::All, std::slice::from_ref(&at), &mut all);
        assert_eq!((all.problems.len(), all.warnings.len()), (0, 1));
        let mut named = Looked { places: vec![other()], ..none() };
        storage_only(&Places::Named(vec![]), std::slice::from_ref(&at), &mut named);
        assert_eq!((named.problems.len(), named.warnings.len()), (1, 0));
        let mut nowhere = none();
        storage_only(&Places::All, &[], &mut nowhere);
        assert_eq!(nowhere.problems.len(), 1);
    }
}
