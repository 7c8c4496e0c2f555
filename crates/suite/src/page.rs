//! A run as one page.

use std::fmt::Write as _;

use mcplane_lab::report::{e, figure as digits, page};

use crate::entry::{Figure, Module, Verdict};
use crate::record::{Entered, Record};

/// Figures in the overview; the section of a workload has all of them.
const FIGURES_SHOWN: usize = 2;

impl Record {
    /// The page, which needs nothing else; the files that it links to lie beside it.
    #[must_use]
    pub fn to_html(&self) -> String {
        let [passed, failed, skipped] = self.counts();
        let title = format!(
            "mcplane suite {}: {passed} passed, {failed} failed, {skipped} skipped",
            self.form
        );
        let mut body = String::new();
        let bad = self.entries.iter().filter(|entered| entered.verdict != Verdict::Pass);
        if failed + skipped > 0 {
            body.push_str("<section><h2>What did not pass</h2><ul class=\"said\">");
            for entered in bad {
                let (class, sign, why) = match &entered.verdict {
                    Verdict::Skip(why) => ("doubt", "!", why),
                    Verdict::Fail(why) => ("bad", "✗", why),
                    Verdict::Pass => continue,
                };
                let _ = write!(
                    body,
                    "<li class=\"{class}\"><span class=\"sign\">{sign}</span><span>{}: {}</span></li>",
                    e(&entered.id),
                    e(why)
                );
            }
            body.push_str("</ul></section>\n");
        }
        for module in Module::ALL {
            let of = || self.entries.iter().filter(|entered| entered.module == module);
            if of().next().is_some() {
                overview(&mut body, module, of());
            }
        }
        self.entries.iter().for_each(|entered| details(&mut body, entered));
        page(&title, &self.environment, &body)
    }
}

fn overview<'a>(out: &mut String, module: Module, of: impl Iterator<Item = &'a Entered>) {
    let _ = write!(
        out,
        "<section><h2>{module}</h2><div class=\"scroll\"><table><thead><tr><th>workload</th><th>verdict\
         </th><th>figures</th><th>took</th></tr></thead><tbody>"
    );
    for entered in of {
        let figures: Vec<_> = entered
            .figures
            .iter()
            .take(FIGURES_SHOWN)
            .map(|of| format!("{} {}", of.name, of))
            .collect();
        let _ = write!(
            out,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{:.1} s</td></tr>",
            word(&entered.verdict),
            e(&figures.join(" · ")),
            entered.seconds,
            id = e(&entered.id),
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn details(out: &mut String, entered: &Entered) {
    let _ = write!(
        out,
        "<section id=\"{id}\"><h2>{id}</h2><p>{}</p>",
        e(&entered.about),
        id = e(&entered.id)
    );
    if let Verdict::Fail(why) | Verdict::Skip(why) = &entered.verdict {
        let _ = write!(out, "<p><strong>{}</strong>: {}</p>", word(&entered.verdict), e(why));
    }
    if !entered.figures.is_empty() {
        out.push_str(
            "<div class=\"scroll\"><table><thead><tr><th>figure</th><th>value</th><th>95 % interval</th>\
             <th>samples</th></tr></thead><tbody>",
        );
        for of in &entered.figures {
            let interval =
                of.interval.map(|[low, high]| format!("{} to {}", digits(low), digits(high)));
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td></tr>",
                e(&of.name),
                digits(of.value),
                e(&of.unit),
                interval.unwrap_or_default(),
                of.samples.map(|samples| samples.to_string()).unwrap_or_default()
            );
        }
        out.push_str("</tbody></table></div>");
    }
    for note in &entered.notes {
        let _ = write!(out, "<p class=\"note\">{}</p>", e(note));
    }
    if let Some(report) = &entered.report {
        let name = e(report);
        let _ = write!(
            out,
            "<p class=\"note\">All of it: <a href=\"{name}\">{name}</a>, for mcplane report.</p>"
        );
    }
    out.push_str("</section>\n");
}

const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "passed",
        Verdict::Fail(_) => "failed",
        Verdict::Skip(_) => "skipped",
    }
}

impl std::fmt::Display for Figure {
    /// Three digits and the unit.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", digits(self.value), self.unit)
    }
}
