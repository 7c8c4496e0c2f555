//! A spec in a file of TOML: a scenario.

use std::fs;
use std::path::Path;

use super::{Places, Spec};

/// Largest scenario file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a file; paths in it are relative to its folder. The places are for complaints about fields.
///
/// # Errors
/// A text that names file, line, column and key, and says what is wrong there.
pub fn read(path: &Path) -> Result<(Spec, Places), String> {
    let cannot = |what: String| format!("cannot read {}: {what}", path.display());
    let bytes = fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(cannot(format!("{bytes} bytes; at most {FILE_BYTES_MAX}")));
    }
    let text = fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&path.display().to_string(), text, folder)
}

pub(super) fn parse(file: &str, text: String, folder: &Path) -> Result<(Spec, Places), String> {
    let places = Places::new(file, text);
    let spec = Spec { folder: folder.to_owned(), ..places.read()? };
    Ok((spec, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Shape, Think};
    use crate::plan::Until;
    use crate::spec::check::{Mode, Named};

    /// What a file asks for, or a complaint about it.
    fn asked(text: &str) -> Result<(Mode, Vec<Named>), String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (spec, places) = parse("s.toml", text.to_owned(), folder)?;
        spec.asked().map_err(|error| places.complaint(&error))
    }

    #[test]
    fn a_file_is_a_spec() {
        let (spec, _) = parse(
            "s",
            "concurrency = [1, 8]\nduration = \"2s\"\nno_floor = true\nno_check = false\n\
             tool = \"echo\"\nargs = { message = \"a\", n = 1.0 }\nburst = \"50/1s\"\nseed = 3\n\
             warmup = 7\n[[targets]]\ncommand = [\"server\", \"-x\"]\n\
             [[targets]]\nurl = \"http://a/\"\nheaders = [\"A: b\"]\n"
                .to_owned(),
            Path::new(""),
        )
        .unwrap();
        assert_eq!(
            (&spec.concurrency[..], spec.no_floor, spec.no_check),
            (&[1, 8][..], true, false)
        );
        assert_eq!(spec.args.as_ref().unwrap().get(), r#"{"message":"a","n":1.0}"#);
        let burst = Shape::Burst { calls: 50, every_ns: 1_000_000_000 };
        assert_eq!((spec.burst, spec.warmup), (Some(burst), Some(Until::Calls(7))));
        let (Mode::Loads(plans), targets) = spec.asked().unwrap() else { panic!("{spec:?}") };
        assert_eq!(plans.iter().map(|plan| plan.concurrency).collect::<Vec<_>>(), [1, 8]);
        let [Named::Command(command, None), Named::Remote(remote)] = &targets[..] else {
            panic!("{targets:?}")
        };
        assert_eq!(command.to_string(), "server -x");
        assert_eq!(remote.address().to_string(), "http://a/");
    }

    #[test]
    fn a_mix_has_its_templates() {
        let text = "think = \"exponential 10ms\"\nseed = 9\n[[tools]]\nname = \"a\"\nweight = 3\n\
            args = { key = \"{zipf:10:1}\" }\n[[tools]]\nname = \"b\"\ncheck = false\n";
        let Mode::Loads(plans) = asked(text).unwrap().0 else { panic!() };
        let mix = &plans[0].mix;
        let tools: Vec<_> = mix.iter().map(|t| (t.tool.as_str(), t.weight, t.check)).collect();
        assert_eq!((tools, plans[0].seed), (vec![("a", 3.0, true), ("b", 1.0, false)], 9));
        assert_eq!(plans[0].think, Some(Think { mean_ns: 10_000_000, exponential: true }));
    }

    #[test]
    fn what_is_wrong_has_its_file_line_column_and_key() {
        for (text, parts) in [
            ("rate = 1\nratee = 2", &["s.toml:2:1: ", "ratee"][..]),
            ("rate = 1\n\nsessions = \"x\"", &["s.toml:3:12: sessions: "]),
            ("rate = ", &["s.toml:1:"]),
            ("think = \"soon\"", &["s.toml:1:9: think: `soon`: ", "exponential 10ms"]),
            (
                "[[tools]]\nname = \"a\"\n[[tools]]\nname = \"b\"\nargs = { a = \"{size:x}\" }",
                &["s.toml:3:1: tools[1]: ", "{size:x}"],
            ),
            ("a = 1", &["s.toml:1:1: ", "concurrency"]),
            ("tool = \"a\"\n[[tools]]\nname = \"a\"", &["s.toml:2:", "tools: ", "with `tool`"]),
            ("[[targets]]\nuri = 1", &["s.toml:2:", "uri"]),
            ("ladder_rate = [9.0]\nthink = \"5ms\"", &["s.toml:2:1: think: ", "`ladder_rate`"]),
            ("think = \"5ms\"\nfind_limit = \"errors=0\"", &["s.toml:1:1: think: "]),
            ("tool = \"a\"\nconcurrency = []", &["s.toml:2:15: concurrency: an empty list"]),
            ("ladder = []", &["s.toml:1:10: ladder: an empty list"]),
            ("\n  duration = \"5 parsecs\"", &["s.toml:2:14: duration: `5 parsecs`: units are ms"]),
            ("rate = 0\n", &["s.toml:1:1: rate: got 0; it takes more than 0"]),
            ("arrivals = \"poisson\"", &["s.toml:1:1: arrivals: it takes `rate`, `burst`, "]),
            ("seed = 1", &["s.toml:1:1: seed: it takes `rate`", "`tools` or `think`"]),
            ("args = { a = 1 }", &["s.toml:1:1: args: it takes `tool`"]),
            ("\nprofile_out = \"x\"", &["s.toml:2:1: profile_out: it takes `profile`"]),
            ("distinct = true", &["s.toml:1:1: distinct: it takes `args` and `no_floor`"]),
            ("profile = \"cpu\"", &["s.toml:1:1: profile: it takes `command`"]),
            ("find_limit = \"p99<5\"", &["s.toml:1:14: find_limit: `p99<5`: ", "unit"]),
            ("requests = 1\nduration = \"1s\"", &["s.toml:1:1: requests: ", "with `duration`"]),
            (
                "[[targets]]\nurl = \"http://a\"\n[[targets]]\nurl = \"ftp://b\"\n",
                &["s.toml:4:1: targets[1].url: ", "ftp is not spoken"],
            ),
            (
                "[[targets]]\ncommand = [\"x\"]\nheaders = [\"a: b\"]\n",
                &["s.toml:3:1: targets[0].headers: it takes `url`"],
            ),
        ] {
            let error = asked(text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }
}
