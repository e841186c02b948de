//! Many episodes at once, stepped together.

use ccp_emu::Stream;
use serde::Deserialize;

use crate::Result;
use crate::env::bad;
use crate::env::domain::Domain;
use crate::env::episode::{Episode, Heuristic, Step};

/// What episodes there are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Paths.
    pub domain: Domain,
    /// What moves the window between actions, but on the paths that are steered.
    pub heuristic: Heuristic,
}

/// One place in which episodes follow each other.
struct Place {
    episodes: Stream,
    episode: Option<Episode>,
}

/// Worlds that have nothing to do with each other.
pub struct Vector {
    settings: Settings,
    places: Vec<Place>,
}

impl Vector {
    /// So many worlds; `reset` begins their episodes.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if the settings cannot be read, or cannot be.
    pub fn new(settings_json: &[u8], n: usize) -> Result<Self> {
        let settings: Settings = serde_json::from_slice(settings_json)
            .map_err(|e| bad("the description of the paths cannot be read").why(e))?;
        settings.domain.check()?;
        let place = |index| Place { episodes: episodes(index as u64), episode: None };
        Ok(Vector { settings, places: (0..n).map(place).collect() })
    }

    /// How many worlds there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Begins a new episode in one world; with a seed, all its episodes follow from that from now on.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if there is no such world, or nothing arrives on a path.
    pub fn reset(&mut self, index: usize, seed: Option<u64>) -> Result<Step> {
        let n = self.len();
        let place = self.places.get_mut(index).ok_or_else(|| bad(format!("world {index} of {n}")))?;
        if let Some(seed) = seed {
            place.episodes = episodes(seed);
        }
        place.begin(&self.settings).map(|step| of(index, step))
    }

    /// Acts in every world and lets an interval pass; where the episode was over, or none was begun, a new one begins
    /// instead. Where the action is no number, time stands still.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if there are more or fewer actions than worlds, or nothing arrives on a path.
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
