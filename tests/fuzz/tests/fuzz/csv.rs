//! Files of CSV, as `producer submit` and `producer accounts import` read them.

use fuzz::transfers::{names, transactions};
use fuzz::{bytes, run};
use input::files::Format;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::files::judge;

/// Columns of a file of transfers, in several orders; also some that are wrong.
const HEADERS: [&str; 8] = [
    "id,source,destination,value,currency",
    "source,destination,value",
    "value, Destination ,SOURCE,id",
    "\"source\",\"destination\",\"value\"",
    "source,destination,value,currency",
    "source,destination",
    "source;destination;value",
    "source,destination,value,value",
];

#[test]
fn a_row_of_cells_is_a_transfer_or_is_refused_by_line_and_field() {
    run("csv", &inputs(), |input| judge(Format::Csv, input));
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    // The first five are good.
    let header = prop_oneof![9 => select(HEADERS[..5].to_vec()), 1 => select(HEADERS.to_vec())];
    let transfers = (header, vec(transfer(), 0..8)).prop_map(|(header, rows)| {
        let columns: Vec<String> =
            header.split(',').map(|name| name.trim_matches(['"', ' ']).to_lowercase()).collect();
        let rows = rows.iter().map(|row| line(row, &columns));
        (header.to_owned(), rows.collect::<Vec<_>>())
    });
    let accounts = vec((names(), any::<i32>()), 0..8).prop_map(|rows| {
        let rows = rows.iter().map(|(name, balance)| format!("{},{balance},none", quoted(name)));
        ("account,balance,floor".to_owned(), rows.collect::<Vec<_>>())
    });
    let ends = select(vec!["\n", "\r\n", "\n\n"]);
    let file =
        (prop_oneof![5 => transfers, 1 => accounts], ends).prop_map(|((header, rows), end)| {
            std::iter::once(header).chain(rows).map(|line| line + end).collect::<String>()
        });
    (file, bytes::spoils()).prop_map(|(file, of_bytes)| bytes::spoiled(file.into_bytes(), of_bytes))
}

/// Cells by column.
#[derive(Clone, Debug)]
struct Row {
    cells: Vec<(&'static str, String)>,
    is_quoted: bool,
}

fn transfer() -> impl Strategy<Value = Row> {
    let odd = select(vec!["", "x", "1e5", "-1", "0", "1000000000000000001", "0.0000000001", "NaN"]);
    let odd = prop_oneof![4 => Just(None), 1 => (any::<Index>(), odd).prop_map(Some)];
    (transactions(), odd, any::<bool>()).prop_map(|(given, odd, is_quoted)| {
        let (source, destination) = (&given.legs[0].0, &given.legs[1].0);
        let mut cells = vec![
            ("source", source.clone()),
            ("destination", destination.clone()),
            ("value", given.legs[1].1.clone()),
            ("id", given.id.unwrap_or_default()),
            ("currency", given.currency.unwrap_or_default()),
        ];
        if let Some((at, odd)) = odd {
            let at = at.index(cells.len());
            cells[at].1 = odd.to_owned();
        }
        Row { cells, is_quoted }
    })
}

fn line(row: &Row, columns: &[String]) -> String {
    let cell = |column: &String| {
        let found = row.cells.iter().find(|(name, _)| name == column);
        let cell = found.map_or("", |(_, cell)| cell.as_str());
        if row.is_quoted { quoted(cell) } else { cell.to_owned() }
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn quoted(cell: &str) -> String {
    format!("\"{}\"", cell.replace('"', "\"\""))
}
