//! How to spoil bytes, whatever they stand for.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One way to spoil bytes.
#[derive(Clone, Debug)]
pub enum Spoil {
    /// They end there.
    Cut(Index),
    /// So many are missing from there on.
    Remove(Index, usize),
    /// So many stand there twice.
    Repeat(Index, usize),
    /// Others are put in there.
    Insert(Index, Vec<u8>),
    /// One is another.
    Flip(Index, u8),
    /// What stands from one place on is put in at another.
    Splice(Index, Index, usize),
}

/// Pieces that mean something to one reader or another.
const PIECES: [&[u8]; 24] = [
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xEF\xBB\xBF",
    b"\0",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\"",
    b"\"\"",
    b",",
    b",,,,",
    b"\\",
    b"\\ud800",
    b"[[[[[[[[[[[[[[[[",
    b"}}",
    b"null",
    b"1e999",
    b"-0",
    b"9223372036854775808",
    b"%00",
    b"&",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
];

/// Ways to spoil bytes; mostly none.
pub fn spoils() -> impl Strategy<Value = Vec<Spoil>> {
    let at = any::<Index>;
    let others = prop_oneof![
        6 => proptest::sample::select(PIECES.as_slice()).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..8),
        1 => (any::<u8>(), 1..3_000_usize).prop_map(|(byte, times)| vec![byte; times]),
    ];
    let spoil = prop_oneof![
        at().prop_map(Spoil::Cut),
        (at(), 1..9_usize).prop_map(|(at, length)| Spoil::Remove(at, length)),
        (at(), 1..40_usize).prop_map(|(at, length)| Spoil::Repeat(at, length)),
        (at(), others).prop_map(|(at, others)| Spoil::Insert(at, others)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Spoil::Flip(at, byte)),
        (at(), at(), 1..60_usize).prop_map(|(from, to, length)| Spoil::Splice(from, to, length)),
    ];
    prop_oneof![3 => Just(Vec::new()), 1 => vec(spoil, 1..4)]
}

/// The same bytes, spoiled in these ways, one after the other.
#[must_use]
pub fn spoiled(mut bytes: Vec<u8>, spoils: Vec<Spoil>) -> Vec<u8> {
    for spoil in spoils {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        let range = |at: Index, most: usize| {
            let from = at.index(length);
            from..length.min(from + most)
        };
        match spoil {
            Spoil::Cut(at) => bytes.truncate(at.index(length)),
            Spoil::Remove(at, most) => drop(bytes.drain(range(at, most))),
            Spoil::Repeat(at, most) => {
                let piece = bytes[range(at, most)].to_vec();
                put_in(&mut bytes, at.index(length), piece);
            }
            Spoil::Insert(at, piece) => put_in(&mut bytes, at.index(length), piece),
            Spoil::Flip(at, by) => bytes[at.index(length)] ^= by,
            Spoil::Splice(from, to, most) => {
                let piece = bytes[range(from, most)].to_vec();
                put_in(&mut bytes, to.index(length), piece);
            }
        }
    }
    bytes
}

fn put_in(bytes: &mut Vec<u8>, at: usize, piece: Vec<u8>) {
    drop(bytes.splice(at..at, piece));
}
