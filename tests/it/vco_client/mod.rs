//! The client of the cloud's API over real HTTP, against replies that no simulator should give.

mod auth;
mod cluster;
mod embedded;
mod log;
mod nouns;
mod objectspace;
mod server;
mod tls;
mod upload;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use capvco::clock::{Clock, Sleep, System};
use capvco::fault::{Class, Fault as _, chain};
use capvco::id::{ImageId, Location};
use capvco::vco::{Client, Config, Customer, Error, Kind, NewImage, RateLimit, TokenSource};
use server::{Answer, Server, html, json, with};

/// Time that passes fifty times as fast, so that a pause of a second takes 20 ms.
#[derive(Debug)]
struct Hurried(System);

const HASTE: u32 = 50;

impl Clock for Hurried {
    fn elapsed(&self) -> Duration {
        self.0.elapsed() * HASTE
    }

    fn unix(&self) -> f64 {
        self.0.unix()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        self.0.sleep(time / HASTE)
    }
}

fn config(server: &Server) -> Config {
    let mut config = Config::new(server.url(), TokenSource::Inline("opaque-token".into()));
    config.customer = "acme_1".parse().ok();
    config
}

fn client(config: Config) -> Client {
    Client::new(config, Arc::new(Hurried(System::new()))).expect("the settings are right")
}

async fn customer(server: &Server) -> Customer {
    client(config(server)).customer().await.expect("it is configured")
}

fn at() -> Location {
    "be-1".parse().expect("it is a location")
}

fn spec() -> NewImage {
    NewImage {
        name: "k8s".to_owned(),
        memory_mib: 2048,
        boot_disk_gib: 10,
        os_type: "Linux".to_owned(),
        os_name: "Linux - other".to_owned(),
        boot_type: "uefi".to_owned(),
        tags: None,
        md5_sum: None,
    }
}

/// Answers the script in turn, its last word for ever.
async fn saying(script: Vec<Answer>) -> Server {
    Server::start(move |_, n| script[n.min(script.len() - 1)].clone()).await
}

async fn list(script: Vec<Answer>) -> (Result<usize, Error>, usize) {
    let server = saying(script).await;
    let images = customer(&server).await.images(&at()).await;
    (images.map(|images| images.len()), server.asked().len())
}

async fn create(script: Vec<Answer>) -> (Result<Option<ImageId>, Error>, usize) {
    let server = saying(script).await;
    let mut config = config(&server);
    config.write_timeout = Duration::from_secs(20);
    let customer = client(config).customer().await.expect("it is configured");
    let made = customer.create_image(&at(), &spec(), "https://h/k8s.qcow2").await;
    (made, server.asked().len())
}

fn two_images() -> Answer {
    json(200, r#"{"result": [{"image_id": "7", "name": "a"}, {"image_id": 8.0, "x": null}]}"#)
}

fn cut_on_the_wire() -> Answer {
    Answer::Cut("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"result\": [".to_owned())
}

#[tokio::test]
async fn a_read_is_repeated_until_it_succeeds() {
    for (trouble, times) in [
        (json(503, r#"{"message": "no capacity"}"#), 4),
        (json(500, "{}"), 2),
        (html(502), 2),
        (html(400), 2),
        (json(429, ""), 2),
        (with(429, &[("Retry-After", "2")], ""), 2),
        (Answer::Reset, 2),
        (cut_on_the_wire(), 2),
        (json(200, r#"{"result": [{"image_id": 4"#), 2),
        (json(200, ""), 2),
    ] {
        let mut script = vec![trouble.clone(); times];
        script.push(two_images());
        let (images, asked) = list(script).await;
        assert_eq!(images.unwrap(), 2, "{trouble:?}");
        assert_eq!(asked, times + 1, "{trouble:?}");
    }
}

#[tokio::test]
async fn a_read_that_never_succeeds_says_how_often_it_was_tried() {
    for (trouble, kind, class, words) in [
        (json(503, "{}"), Kind::Status(503), Class::Transient, "HTTP 503, after 8 tries in"),
        (
            json(500, r#"{"message": "boom", "errorcode": "a-1"}"#),
            Kind::Status(500),
            Class::Transient,
            "HTTP 500: boom [errorcode a-1], after 4 tries in",
        ),
        (json(200, r#"{"result": ["#), Kind::Garbled, Class::Transient, "cut off after 12 bytes"),
        (json(200, ""), Kind::Garbled, Class::Transient, "it is empty"),
        (cut_on_the_wire(), Kind::Lost, Class::Transient, "connection broke"),
        (Answer::Reset, Kind::Lost, Class::Transient, "after 4 tries"),
    ] {
        let (images, asked) = list(vec![trouble]).await;
        let error = images.unwrap_err();
        assert_eq!((error.kind(), error.class()), (kind, class), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().starts_with("cannot list images (location be-1): "), "{error}");
        assert_eq!(asked, usize::try_from(error.tries()).unwrap());
        assert!(!error.outcome_unknown());
    }
}

#[tokio::test]
async fn what_repeating_does_not_mend_is_not_repeated() {
    for (reply, class, words) in [
        (json(400, r#"{"message": "bad", "errors": {"name": "x"}}"#), Class::Invalid, "bad: {"),
        (json(400, r#"{"message": "CPU quota exceeded"}"#), Class::Quota, "quota"),
        (json(403, ""), Class::Auth, "HTTP 403"),
        (json(404, r#"{"message": "no location"}"#), Class::NotFound, "no location"),
        (json(409, ""), Class::Conflict, "HTTP 409"),
        (json(200, r#"{"success": false, "message": "no"}"#), Class::Invalid, "success: false: no"),
        (html(404), Class::Usage, "not the portal's API"),
        (html(200), Class::Usage, "not the portal's API"),
        (
            with(302, &[("Location", "https://login.example/?t=x")], ""),
            Class::Usage,
            "redirects to https://login.example/?*** (HTTP 302)",
        ),
        (json(200, r#"{"else": 1}"#), Class::Transient, "it holds no list: {\"else\""),
    ] {
        let (images, asked) = list(vec![reply]).await;
        let error = images.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(asked, 1, "{error}");
    }
}

#[tokio::test]
async fn a_create_is_repeated_only_where_it_surely_did_not_happen() {
    let made = json(200, r#"{"image_id": 7}"#);
    for reply in [json(429, ""), html(400), with(429, &[("Retry-After", "1")], "")] {
        let (id, asked) = create(vec![reply, made.clone()]).await;
        assert_eq!((id.unwrap(), asked), (Some(ImageId(7)), 2));
    }
    for (reply, unknown) in [
        (json(500, "{}"), true),
        (json(503, "{}"), true),
        (html(502), true),
        (Answer::Reset, true),
        (cut_on_the_wire(), true),
        (Answer::Hang, true),
        (json(400, "{}"), false),
        (json(409, "{}"), false),
        (json(200, r#"{"success": false}"#), false),
    ] {
        let (made, asked) = create(vec![reply.clone()]).await;
        let error = made.unwrap_err();
        assert_eq!((error.outcome_unknown(), asked), (unknown, 1), "{reply:?}: {error}");
        let hinted = error.hints().iter().any(|hint| hint.contains("look before"));
        assert_eq!(hinted, unknown, "{error}");
    }
}

#[tokio::test]
async fn a_create_replies_in_many_forms() {
    for (body, id) in [
        (r#"{"image_id": 7}"#, Some(ImageId(7))),
        (r#"{"id": "7"}"#, Some(ImageId(7))),
        ("7", Some(ImageId(7))),
        ("\"7\"", Some(ImageId(7))),
        (r#"{"success": true}"#, None),
        ("accepted", None),
        ("", None),
    ] {
        let (made, _) = create(vec![json(200, body)]).await;
        assert_eq!(made.unwrap(), id, "{body}");
    }
}

#[tokio::test]
async fn a_storm_of_429_ends_in_an_error_that_says_what_was_asked() {
    let (images, asked) = list(vec![with(429, &[("Retry-After", "900")], "")]).await;
    let error = images.unwrap_err();
    assert_eq!((error.class(), asked), (Class::RateLimited, 1));
    assert!(error.hints()[0].contains("900 s"), "{:?}", error.hints());
    let (images, asked) = list(vec![json(429, "")]).await;
    assert_eq!((images.unwrap_err().class(), asked), (Class::RateLimited, 8));
}

#[tokio::test]
async fn retry_after_is_kept_as_seconds_and_as_date() {
    let server = Server::start(|_, n| match n {
        0 => with(429, &[("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT")], ""),
        1 => with(503, &[("Retry-After", "40")], ""),
        _ => two_images(),
    })
    .await;
    let clock = Hurried(System::new());
    customer(&server).await.images(&at()).await.unwrap();
    assert!(clock.elapsed() >= Duration::from_secs(40), "{:?}", clock.elapsed());
}

#[tokio::test]
async fn a_location_that_hangs_is_given_up_in_time() {
    let server = saying(vec![Answer::Hang]).await;
    let mut config = config(&server);
    config.read_timeout = Duration::from_secs(5);
    config.retry_for = Duration::from_secs(8);
    let error = client(config).customer().await.unwrap().images(&at()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.to_string().contains("no reply in time: waited 5 s, after 2 tries"), "{error}");
}

#[tokio::test]
async fn a_delete_of_what_is_gone_is_done() {
    for (reply, done) in [
        (json(404, r#"{"message": "gone"}"#), true),
        (json(204, ""), true),
        (json(200, r#"{"success": true}"#), true),
        (json(409, r#"{"message": "in use"}"#), false),
        (html(404), false), // a page of something else proves nothing
    ] {
        let server = saying(vec![reply.clone()]).await;
        let outcome = customer(&server).await.delete_image(&at(), ImageId(7)).await;
        assert_eq!(outcome.is_ok(), done, "{reply:?}: {outcome:?}");
        let asked = &server.asked()[0];
        assert_eq!(asked.method, "DELETE");
        assert_eq!(asked.path, "/api/1/customers/acme_1/locations/be-1/vm-images/7");
        assert_eq!(asked.query, "permanently=true");
    }
}

#[tokio::test]
async fn an_image_that_is_not_there_is_none() {
    let server = saying(vec![json(404, "{}"), html(404)]).await;
    let customer = customer(&server).await;
    assert_eq!(customer.image(&at(), ImageId(7)).await.unwrap(), None);
    let error = customer.image(&at(), ImageId(7)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Garbled, "a page of something else proves nothing: {error}");
}

#[tokio::test]
async fn lists_that_do_not_vouch_for_a_location_prove_nothing() {
    let bin = |status: &str| {
        json(
            200,
            &format!(
                r#"{{"locations": [{{"location": "be-1", "status": {status}}}],
            "result": {{"images": [{{"image_id": 7, "image_name": "a", "location": "be-1"}},
                {{"image_id": 8, "location": "nl-1"}}]}}}}"#
            ),
        )
    };
    let server = saying(vec![bin("\"OK\""), bin("\"Error\""), bin("null"), json(200, "{}")]).await;
    let customer = customer(&server).await;
    let images = customer.deleted_images().await.unwrap().at(&at()).unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].name.as_deref(), Some("a"));
    for _ in 0..3 {
        let error = customer.deleted_images().await.unwrap().at(&at()).unwrap_err();
        assert_eq!((error.kind(), error.class()), (Kind::Incomplete, Class::Transient), "{error}");
    }
    let error = customer.cloudspaces(&at()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete);
}

#[tokio::test]
async fn the_request_is_what_the_vendors_file_says() {
    let server = saying(vec![json(200, "{}")]).await;
    let customer = customer(&server).await;
    let url = "https://u:p@h/k8s v1.qcow2?sig=a&b";
    customer.create_image(&at(), &spec(), url).await.unwrap();
    let _ = customer.vms(&"dXMtMTox".parse().unwrap()).await;
    let _ = customer.restore_image(&at(), ImageId(7)).await;
    let asked = server.asked();
    assert_eq!(asked[0].path, "/api/1/customers/acme_1/locations/be-1/vm-images");
    assert!(
        asked[0].query.ends_with(
            "&boot_type=uefi&url=https%3A%2F%2Fu%3Ap%40h%2Fk8s%20v1.qcow2%3Fsig%3Da%26b"
        )
    );
    assert_eq!(asked[0].header("authorization"), Some("Bearer opaque-token"));
    assert_eq!(asked[0].header("content-length"), Some("0"));
    assert!(asked[0].header("user-agent").unwrap().starts_with("capvco/"));
    let mask = asked[1].header("x-fields").unwrap();
    assert!(mask.starts_with("result{vm_id,") && !mask.contains("os_accounts"), "{mask}");
    assert_eq!((asked[2].method.as_str(), asked[2].query.as_str()), ("PUT", ""));
}

#[tokio::test]
async fn nobody_there_and_no_such_host_are_told_apart() {
    let closed = format!("127.0.0.1:{}", free_port());
    for (portal, kind, said, hint) in [
        (format!("http://{closed}"), Kind::Connect, format!("to http://{closed}, a"), "firewalls"),
        (
            "https://no-such-host.invalid".to_owned(),
            Kind::Name,
            "resolved: https://no-such-host.invalid:443, after 3 tries".to_owned(),
            "DNS",
        ),
    ] {
        let config = Config::new(portal.clone(), TokenSource::Inline("x".into()));
        let error = client(config).me().await.unwrap_err();
        assert_eq!((error.kind(), error.class()), (kind, Class::Transient), "{}", chain(&error));
        assert!(error.to_string().contains(&said), "{error}");
        assert!(!chain(&error).contains("Query {"), "{}", chain(&error));
        assert!(error.spent() <= Duration::from_secs(16), "{error}");
        assert!(error.hints()[0].contains(hint), "{:?}", error.hints());
    }
}

#[tokio::test]
async fn a_portal_that_starts_late_is_waited_for() {
    let port = free_port();
    let config = Config::new(format!("http://127.0.0.1:{port}"), TokenSource::Inline("x".into()));
    let client = client(config);
    let late = async {
        tokio::time::sleep(Duration::from_secs(5) / HASTE).await;
        Server::start_at(port, |_, _| json(200, "{}")).await
    };
    let (me, _server) = tokio::join!(client.me(), late);
    me.unwrap();
}

/// A port at which nobody listens.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

#[tokio::test]
async fn twenty_in_five_seconds_and_five_at_once() {
    let server = saying(vec![two_images()]).await;
    let customer = customer(&server).await;
    let clock = Hurried(System::new());
    let place = at();
    futures_util::future::join_all((0..45).map(|_| customer.images(&place))).await;
    let took = clock.elapsed();
    assert!(took >= Duration::from_secs(10), "45 calls in {took:?}");
    let mut config = config(&server);
    config.rate_limit = Some(RateLimit::Off);
    let customer = client(config).customer().await.unwrap();
    let clock = Hurried(System::new());
    futures_util::future::join_all((0..45).map(|_| customer.images(&place))).await;
    assert!(clock.elapsed() < Duration::from_secs(10), "{:?}", clock.elapsed());
}
