//! Results on stdout: table, JSON or NDJSON from one value.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use super::args::Format;
use super::diagnose::steers;
use crate::report::Report;

/// Writes the report's rows in `format`; a table is at most `width` columns wide.
pub(super) fn write<R: Report>(
    out: &mut dyn Write,
    report: &R,
    format: Format,
    width: Option<u16>,
) -> io::Result<()> {
    match format {
        Format::Table => write_table(out, report, width)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &Results { results: report.rows() })?;
            writeln!(out)?;
        }
        Format::Ndjson => {
            for row in report.rows() {
                serde_json::to_writer(&mut *out, row)?;
                writeln!(out)?;
            }
        }
    }
    out.flush()
}

#[derive(Serialize)]
struct Results<'a, R> {
    results: &'a [R],
}

/// Columns two blanks apart, no lines; nothing at all where there are no rows.
fn write_table<R: Report>(out: &mut dyn Write, report: &R, width: Option<u16>) -> io::Result<()> {
    if report.rows().is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(report.headers().iter().map(|title| title.to_uppercase()));
    for row in report.rows() {
        table.add_row(report.cells(row).iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2)).set_cell_alignment(CellAlignment::Left);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What another machine wrote cannot break the table or steer the terminal.
fn one_line(cell: &str) -> String {
    cell.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[derive(Serialize)]
    struct Row {
        location: &'static str,
        result: &'static str,
    }

    struct Rows(Vec<Row>);

    impl Report for Rows {
        type Row = Row;

        fn rows(&self) -> &[Row] {
            &self.0
        }

        fn headers(&self) -> &'static [&'static str] {
            &["location", "result"]
        }

        fn cells(&self, row: &Row) -> Vec<String> {
            vec![row.location.to_owned(), row.result.to_owned()]
        }

        fn verdict(&self) -> Verdict {
            Verdict::Done
        }
    }

    fn printed(rows: Vec<Row>, format: Format, width: Option<u16>) -> String {
        let mut out = Vec::new();
        write(&mut out, &Rows(rows), format, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn two() -> Vec<Row> {
        let first = Row { location: "be-1", result: "created" };
        vec![first, Row { location: "nl-rmd-dc01-001", result: "un\u{202e}changed\u{1b}\n" }]
    }

    #[test]
    fn one_value_makes_all_three_formats() {
        let table = "\
LOCATION         RESULT
be-1             created
nl-rmd-dc01-001  un changed
";
        let ndjson = "{\"location\":\"be-1\",\"result\":\"created\"}\n";
        assert_eq!(printed(two(), Format::Table, None), table);
        assert!(printed(two(), Format::Ndjson, None).starts_with(ndjson));
        let json: serde_json::Value =
            serde_json::from_str(&printed(two(), Format::Json, None)).unwrap();
        assert_eq!(json["results"][0]["result"], "created");
        assert_eq!(printed(Vec::new(), Format::Table, None), "");
        assert_eq!(printed(Vec::new(), Format::Json, None), "{\n  \"results\": []\n}\n");
    }

    #[test]
    fn a_table_keeps_to_the_terminals_width() {
        let long = Row { location: "be-1", result: "the image is in use by a machine" };
        let lines = printed(vec![long], Format::Table, Some(24));
        assert!(lines.lines().count() > 2 && lines.lines().all(|line| line.len() <= 24), "{lines}");
    }
}
