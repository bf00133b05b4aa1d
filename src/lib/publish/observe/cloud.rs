//! Looks at the customer's locations: which there are, what has the image's name there, who uses it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

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
pub struct Look<'a> {
    name: &'a str,
    settings: &'a Settings,
    replace: bool,
}

impl<'a> Look<'a> {
    /// What this request needs to know.
    #[must_use]
    pub fn of(request: &'a Request) -> Self {
        Self { name: &request.name, settings: &request.settings, replace: request.replace }
    }
}

/// The locations of a request, or what is wrong with it.
#[derive(Debug, Default)]
pub struct Looked<T> {
    /// The locations in order, each with what was seen, or why it could not be looked at.
    pub places: Vec<(Location, Result<T, Problem>)>,
    /// Wrong inputs.
    pub problems: Vec<Problem>,
    /// What holds for the whole run.
    pub warnings: Vec<String>,
}

/// Looks at everything in the cloud that matters.
pub async fn look(customer: &Customer, places_asked: &Places, what: &Look<'_>) -> Looked<Seen> {
    let (found, system, bin) = tokio::join!(
        places(customer, places_asked),
        os_name(customer, what.settings),
        customer.deleted_images()
    );
    // The bin only explains; without it, a taken name is the cloud's to explain.
    let bin = bin.ok();
    let Looked { places, mut problems, mut warnings } = found;
    match system {
        Ok(warning) => warnings.extend(warning),
        Err(problem) => problems.push(problem),
    }
    if !problems.is_empty() {
        return Looked { places: vec![], problems, warnings };
    }
    let seen = join_all(places.into_iter().map(async |(at, place)| {
        let seen = match place {
            Ok(()) => {
                seen(customer, &at, what, bin.as_ref()).await.map_err(|error| Problem::of(&error))
            }
            Err(problem) => Err(problem),
        };
        (at, seen)
    }));
    Looked { places: seen.await, problems, warnings }
}

/// Finds the locations, and whether they can host VMs.
pub async fn places(customer: &Customer, asked: &Places) -> Looked<()> {
    let mut looked = Looked::default();
    let known = match customer.locations().await {
        Ok(known) => known,
        Err(error) => {
            looked.problems.push(Problem::of(&error));
            return looked;
        }
    };
    let wanted = match asked {
        Places::All => known.clone(),
        Places::Named(named) => named.clone(),
    };
    let (there, unknown): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|at| known.contains(at));
    looked.problems.extend(unknown.iter().map(|at| no_such_location(at, &known)));
    let infos = join_all(there.iter().map(|at| customer.location(at))).await;
    let mut without_vms = Vec::new();
    for (at, info) in there.into_iter().zip(infos) {
        match info {
            Ok(info) if info.storage_only == Some(true) => without_vms.push(at),
            Ok(_) => looked.places.push((at, Ok(()))),
            // The list is about prices and may name locations we may not enter.
            Err(error) if matches!(error.class(), Class::NotFound) => {
                looked.problems.push(Problem::of(&error));
            }
            Err(error) => looked.places.push((at, Err(Problem::of(&error)))),
        }
    }
    storage_only(asked, &without_vms, &mut looked);
    looked
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
fn storage_only(asked: &Places, without_vms: &[Location], looked: &mut Looked<()>) {
    for at in without_vms {
        let text = format!("location {at} only stores data and can host no VM");
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
    what: &Look<'_>,
    bin: Option<&DeletedImages>,
) -> Result<Seen, vco::Error> {
    let listed = customer.images(at).await?;
    let binned = bin.and_then(|bin| bin.at(at).ok()).unwrap_or_default();
    let mut seen = Seen { ids: ids(&listed), ..Seen::default() };
    seen.ids.extend(ids(&binned));
    seen.had = own(&listed, what.name, None);
    for had in own(&binned, what.name, Some(State::Binned)) {
        if seen.had.iter().all(|other| other.id != had.id) {
            seen.had.push(had);
        }
    }
    details(customer, at, what.settings, &mut seen.had).await?;
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
        let other = || ("nl-1".parse().unwrap(), Ok(()));
        let mut all = Looked { places: vec![other()], ..Looked::default() };
        storage_only(&Places::All, std::slice::from_ref(&at), &mut all);
        assert_eq!((all.problems.len(), all.warnings.len()), (0, 1));
        let mut named = Looked { places: vec![other()], ..Looked::default() };
        storage_only(&Places::Named(vec![]), std::slice::from_ref(&at), &mut named);
        assert_eq!((named.problems.len(), named.warnings.len()), (1, 0));
        let mut none = Looked::default();
        storage_only(&Places::All, &[], &mut none);
        assert_eq!(none.problems.len(), 1);
    }
}
