mod captures;
mod errors;
mod formats;
mod fuzz;
mod round_trips;
