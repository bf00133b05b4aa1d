//! What a run has started ends with the run, however that ends.
//!
//! A guard's drop is not enough: what a whole run shares is never dropped, and SIGKILL drops
//! nothing. So one shell a run holds the other end of a pipe of ours, and knows which processes
//! and folders are ours. When the pipe closes, it kills the ones and removes the others. It is a
//! process group of its own, so that Ctrl-C meets only us.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

const SHELL: &str = r#"
trap '' HUP INT TERM
held=
folders=
while read -r word what; do
    case $word in
    hold) held="$held $what" ;;
    free)
        rest=
        for id in $held; do [ "$id" = "$what" ] || rest="$rest $id"; done
        held=$rest ;;
    clear) folders="$folders
$what" ;;
    esac
done
[ -z "$held" ] || kill -9 $held
[ -n "$folders" ] || exit 0
# The dead may not be quite dead yet.
sleep 0.3
IFS='
'
rm -rf -- $folders
"#;

/// This process is killed when the run ends, unless it is freed before.
pub fn hold(id: u32) {
    tell("hold", &id.to_string());
}

/// This process ends otherwise; told before its id can be another's.
pub fn free(id: u32) {
    tell("free", &id.to_string());
}

/// This folder is removed when the run ends.
pub fn clear(folder: &Path) {
    tell("clear", folder.to_str().expect("temporary folders have plain names"));
}

fn tell(word: &str, what: &str) {
    static SHELLS: OnceLock<Mutex<Child>> = OnceLock::new();
    let shell = SHELLS.get_or_init(|| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SHELL]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Mutex::new(command.spawn().expect("there is a shell"))
    });
    // A test that failed meanwhile leaves the pipe as good as it was.
    let mut shell = shell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pipe = shell.stdin.as_mut().expect("it was piped");
    writeln!(pipe, "{word} {what}").expect("the shell lives as long as we do");
}
