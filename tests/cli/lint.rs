//! `mcplane lint`: exit codes, both outputs, and what it refuses.

use std::fs;

use mcplane_tests::child::{mcplane, start_mcplane};

use crate::{LIMIT, file};

const SOUND: &str = "name,runs,in_flight,errors,calls/s,p50_ms\na,5,4,0,1000.3,3.91\n";
const WRONG: &str = "name,in_flight,calls,calls/s,mean_ms\na,4,100000,1000.3,9.11\n";

#[test]
fn exit_codes_say_whether_figures_can_be_true() {
    let (sound, wrong) = (file("sound.csv"), file("wrong.csv"));
    fs::write(&sound, SOUND).unwrap();
    fs::write(&wrong, WRONG).unwrap();
    let (sound, wrong) = (sound.to_str().unwrap(), wrong.to_str().unwrap());
    let ended = mcplane(&["lint", sound], LIMIT).ok();
    assert!(ended.stdout.contains("0 impossible, 0 doubtful"), "{ended}");
    let ended = mcplane(&["lint", sound, wrong], LIMIT).code(1);
    for part in
        ["impossible  little", "#2 a — 1,000/s × mean of at least 9.1", "in flight, stated 4"]
    {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    let ended = mcplane(&["lint", wrong, "/nowhere.csv"], LIMIT).code(2);
    assert!(ended.stdout.contains("little"), "the other file is audited: {ended}");
    assert!(ended.stderr.contains("/nowhere.csv: cannot read it"), "{ended}");
    mcplane(&["lint"], LIMIT).code(2);
}

#[test]
fn json_holds_each_finding_and_standard_input_is_a_file() {
    let ended = start_mcplane(&["lint", "--json", "-"], WRONG).wait(LIMIT).code(1);
    let all: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let finding = &all[0]["findings"][0];
    assert_eq!(all[0]["file"], "standard input");
    assert_eq!((&finding["rule"], &finding["severity"]), (&"little".into(), &"impossible".into()));
    assert_eq!((&finding["row"], &finding["line"]), (&"a".into(), &2.into()));
    let ended = start_mcplane(&["lint", "--json", "-"], "no table").wait(LIMIT).code(2);
    let all: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(all[0]["error"].as_str().unwrap().contains("no table with named columns"), "{ended}");
}
