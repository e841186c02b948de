//! Tests over all modules.

mod captures;
mod errors;
mod formats;
mod fuzz;
mod round_trips;
