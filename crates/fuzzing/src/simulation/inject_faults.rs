//! Faults of whole processes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::instance::{INSTANCES, names, start_instance};
use super::random::Random;
use super::servers::SERVERS;
use super::{Simulation, processes};

impl Simulation {
    /// Stops and starts processes and adjusts clocks until the simulation stops injecting faults.
    pub(super) async fn inject_faults(self: Arc<Self>, mut random: Random) {
        let world = &self.world;
        if self.settings.faults == 0 {
            return;
        }
        loop {
            let longest = self.settings.pause.max(Duration::from_secs(60));
            let longest = u64::try_from(longest.as_millis()).unwrap();
            let pause = sleep(Duration::from_secs(5) + random.millis(longest));
            if world.healed.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let down = random.millis(8000);
            match random.below(6) {
                0 | 1 => {
                    world.count("crashed instance");
                    let number = random.index(INSTANCES);
                    let fresh = start_instance(world, number, self.settings.faults);
                    let old =
                        std::mem::replace(&mut *self.instances[number].lock().unwrap(), fresh);
                    old.crashed.cancel();
                }
                2 => {
                    world.count("restarted server");
                    let server = random.index(SERVERS);
                    processes::stop_server(world, server).await;
                    sleep(down).await;
                    processes::start_server(world, server, self.settings.faults).await;
                }
                3 => {
                    world.count("restarted gateway");
                    processes::stop_gateway(world).await;
                    sleep(down).await;
                    processes::start_gateway(world, &names()).await;
                }
                4 => {
                    world.count("adjusted clock");
                    let hours = i64::try_from(random.below(96)).unwrap() - 48;
                    world.servers.adjust_clocks(hours * 3600);
                    let number = random.index(INSTANCES);
                    let instance = Arc::clone(&self.instances[number].lock().unwrap());
                    instance.env.adjust(-hours * 3600);
                }
                _ => {
                    world.count("revoked token");
                    let _ = world.servers.issue_token();
                }
            }
        }
    }
}
