//! Many episodes, stepped together.

use ccp_emu::Stream;
use serde::Deserialize;

use crate::Result;
use crate::env::bad;
use crate::env::domain::Domain;
use crate::env::episode::{Episode, Heuristic, Step};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub domain: Domain,
    /// Congestion control between actions, except on steered paths.
    pub heuristic: Heuristic,
}

/// A sequence of episodes.
struct Place {
    episodes: Stream,
    episode: Option<Episode>,
}

/// Independent worlds.
pub struct Vector {
    settings: Settings,
    places: Vec<Place>,
}

impl Vector {
    /// Creates so many worlds; `reset` begins their episodes. Errors: `learning.bad_domain` if the settings
    /// are invalid.
    pub fn new(settings_json: &[u8], n: usize) -> Result<Self> {
        let settings: Settings = serde_json::from_slice(settings_json)
            .map_err(|e| bad("cannot parse the description of the paths").why(e))?;
        settings.domain.check()?;
        let place = |index| Place { episodes: episodes(index as u64), episode: None };
        Ok(Vector { settings, places: (0..n).map(place).collect() })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Begins a new episode in one world; a seed determines all its episodes from now on. Errors:
    /// `learning.bad_domain` if there is no such world, or nothing arrives on a path.
    pub fn reset(&mut self, index: usize, seed: Option<u64>) -> Result<Step> {
        let n = self.len();
        let place = self.places.get_mut(index).ok_or_else(|| bad(format!("world {index} of {n}")))?;
        if let Some(seed) = seed {
            place.episodes = episodes(seed);
        }
        place.begin(&self.settings).map(|step| of(index, step))
    }

    /// Acts in every world, and runs an interval; if the episode was over or not begun, a new one begins
    /// instead. Worlds whose action is NaN stand still. Errors: `learning.bad_domain` if the numbers of
    /// actions and worlds differ, or nothing arrives on a path.
    pub fn step(&mut self, actions: &[f32]) -> Result<Vec<Step>> {
        if actions.len() != self.len() {
            return Err(bad(format!("{} actions for {} worlds", actions.len(), self.len())));
        }
        let worlds = self.places.iter_mut().zip(actions).enumerate();
        worlds
            .map(|(index, (place, action))| place.step(*action, &self.settings).map(|step| of(index, step)))
            .collect()
    }
}

impl Place {
    fn step(&mut self, action: f32, settings: &Settings) -> Result<Step> {
        if action.is_nan() {
            return Ok(Step::default());
        }
        match &mut self.episode {
            Some(episode) if !episode.is_over() => Ok(episode.step(action)),
            _ => self.begin(settings),
        }
    }

    fn begin(&mut self, settings: &Settings) -> Result<Step> {
        let path = settings.domain.draw(&mut self.episodes);
        let (episode, step) = Episode::new(path, settings.heuristic, settings.domain.episode_us)?;
        self.episode = Some(episode);
        Ok(step)
    }
}

fn of(index: usize, step: Step) -> Step {
    Step { flow_id: index as u32, ..step }
}

fn episodes(seed: u64) -> Stream {
    Stream::new(seed, "path", "episodes")
}
