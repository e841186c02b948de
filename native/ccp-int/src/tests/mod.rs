//! Tests over all modules.

mod causes;
mod json;
mod means;
mod meter;
mod network;
mod source;
