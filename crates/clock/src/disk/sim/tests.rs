use super::*;

fn write(disk: &SimDisk, name: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
    let mut file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

#[test]
fn what_is_synced_survives_and_nothing_else_is_sure() {
    let (mut lost, mut torn, mut kept) = (0, 0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let mut file = write(&disk, "a", b"safe");
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        file.write_at(4, b"unsafe").unwrap();
        disk.restart();
        let bytes = disk.read("a").unwrap();
        assert!(bytes.starts_with(b"safe"), "seed {seed}");
        assert!(b"safeunsafe".starts_with(&bytes[..]), "seed {seed}");
        match bytes.len() {
            4 => lost += 1,
            10 => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(
        lost > 10 && torn > 10 && kept > 10,
        "{lost} lost, {torn} torn, {kept} kept"
    );
}

#[test]
fn names_are_lost_without_a_sync_of_the_directory() {
    let survivors = (0..100)
        .filter(|seed| {
            let disk = SimDisk::new(*seed);
            write(&disk, "a", b"x").sync().unwrap();
            disk.restart();
            disk.read("a").is_ok()
        })
        .count();
    assert!((10..90).contains(&survivors), "{survivors} survived");
}

#[test]
fn a_crash_stops_everything_until_the_restart() {
    let disk = SimDisk::new(1);
    let mut file = write(&disk, "a", b"x");
    disk.crash_at(disk.steps() + 1);
    file.sync().unwrap_err();
    assert!(disk.is_crashed());
    disk.list().unwrap_err();
    disk.restart();
    disk.list().unwrap();
    file.sync().expect_err("its process is gone");
}

#[test]
fn a_full_disk_says_so_and_takes_what_was_reserved() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(10));
    let mut file = disk.create("a").unwrap();
    file.reserve(8).unwrap();
    let error = file.reserve(11).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_at(0, b"12345678").unwrap();
    file.write_at(8, b"123").unwrap_err();
    file.sync().unwrap();
}

#[test]
fn a_failed_sync_is_not_made_good_by_a_later_one() {
    let lost = (0..100)
        .filter(|seed| {
            let disk = SimDisk::new(*seed);
            let mut file = write(&disk, "a", b"x");
            disk.sync_directory().unwrap();
            disk.fail_sync_at(0);
            file.sync().unwrap_err();
            file.sync().unwrap();
            disk.restart();
            disk.read("a").unwrap() != b"x"
        })
        .count();
    assert!(lost > 10, "{lost} lost");
}

#[test]
fn a_file_without_a_name_takes_no_memory() {
    let disk = SimDisk::new(1);
    disk.create("old").unwrap().write_at(0, b"old").unwrap();
    disk.sync_directory().unwrap();
    disk.create("new").unwrap().write_at(0, b"new").unwrap();
    disk.rename("new", "old").unwrap();
    assert_eq!(disk.inner().files.len(), 2, "a crash may bring the old one back");
    disk.sync_directory().unwrap();
    assert_eq!(disk.inner().files.len(), 1);
    assert_eq!(disk.read("old").unwrap(), b"new");
    disk.remove("old").unwrap();
    disk.sync_directory().unwrap();
    assert_eq!(disk.inner().files.len(), 0);
}
