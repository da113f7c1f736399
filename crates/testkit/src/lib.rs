//! What tests need: the simulated disk, which lives in `clock` because the program's own simulation uses it too.

pub mod disk {
    //! A disk that forgets, tears, reorders and fills up.
    pub use clock::disk::SimDisk;
}
