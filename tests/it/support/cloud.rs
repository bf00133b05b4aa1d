//! An embedded cloud for one test, whose traffic is kept, and programs that talk to it.

use capvco::sim::world::{Image, Status};
use capvco::sim::{Pace, Sim, World};

use super::program::Program;

/// Starts a cloud for `test`.
pub async fn cloud(test: &str, world: World) -> Sim {
    let sim = Sim::start(world, Pace::Auto).await.expect("a free port");
    sim.write_traffic_to(&super::traffic_file(test)).expect("the traffic file can be written");
    sim
}

impl Program {
    /// Gives it portal, customer and token of this cloud, as variables.
    pub fn on(self, sim: &Sim) -> Self {
        self.env("VCO_PORTAL_URL", sim.portal_url())
            .env("VCO_IAM_REFRESH_URL", sim.iam_refresh_url())
            .env("VCO_CUSTOMER_ID", sim.customer())
            .env("VCO_TOKEN", sim.token())
    }
}

/// An image of the first customer.
pub fn own_image(world: &World, image_id: u64, name: &str, status: Status) -> Image {
    Image {
        image_id,
        customer_id: world.customers[0].customer_id.clone(),
        name: name.to_owned(),
        status,
        bytes: 3 << 20,
        ..Image::default()
    }
}
