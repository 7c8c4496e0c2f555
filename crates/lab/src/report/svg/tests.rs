use super::*;

fn labels(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn ticks_are_round_and_hold_the_values() {
    let show = |value: f64| value.to_string();
    assert_eq!(labels(&Axis::linear("", [0.0, 47.0], show)), ["0", "10", "20", "30", "40", "50"]);
    assert_eq!(labels(&Axis::linear("", [47.0], show).ending(47.0)), ["0", "10", "20", "30", "40"]);
    assert_eq!(labels(&Axis::linear("", [], show)).first(), Some(&"0"));
    assert_eq!(labels(&Axis::log("", [12.0, 900.0], show)), ["10", "30", "100", "300", "1000"]);
    assert_eq!(labels(&Axis::log("", [12.0, 900.0], show).sparse()), ["10", "100", "1000"]);
    assert_eq!(
        labels(&Axis::log("", [0.8, 1.3], show).sparse()).len(),
        3,
        "one power is not a scale"
    );
    assert_eq!(labels(&Axis::log("", [1.0, 1.0], show)), ["0.5", "1", "2"]);
    for values in [
        vec![],
        vec![f64::NAN],
        vec![f64::INFINITY, -1.0, 0.0],
        vec![1e-300, 1e300],
        vec![f64::MAX],
    ] {
        for axis in [Axis::linear("", values.clone(), show), Axis::log("", values.clone(), show)] {
            assert!(axis.ticks.len() < 40, "{values:?}");
            assert!(axis.at(f64::NAN).is_none());
        }
    }
}

#[test]
fn a_value_is_where_its_scale_puts_it() {
    let show = |value: f64| value.to_string();
    let linear = Axis::linear("", [100.0], show);
    assert_eq!(
        (linear.at(0.0), linear.at(50.0), linear.at(100.0)),
        (Some(0.0), Some(0.5), Some(1.0))
    );
    let log = Axis::log("", [1.0, 100.0], show);
    assert!((log.at(10.0).unwrap() - 0.5).abs() < 1e-9);
    assert_eq!((log.at(0.0), log.at(1e9)), (None, None));
}

#[test]
fn lines_stay_inside_and_labels_apart() {
    let points: Vec<_> = (1..=1_000).map(|x| (f64::from(x), f64::from(x * x))).collect();
    let line = Line { name: "a<b".to_owned(), colour: 9, dash: "dash", points, marks: vec![] };
    let many = (0..200).map(|at| (1.0 + f64::from(at) * 5.0, format!("label {at}")));
    let chart = Lines {
        title: "t".to_owned(),
        text: "d".to_owned(),
        x: Axis::named("x", (1.0, 1_000.0), many),
        y: Axis::log("y", [1.0, 1e6], |value| value.to_string()),
        lines: vec![line],
        mark: Some((10.0, "here".to_owned())),
    };
    let svg = chart.draw("one");
    let all = crate::report::tests::elements(&svg);
    let of = |name: &str| -> Vec<_> { all.iter().filter(|(element, _)| element == name).collect() };
    let number = |of: &[(String, String)], key: &str| {
        of.iter().find(|(name, _)| name == key).unwrap().1.parse::<f64>().unwrap()
    };
    let points = &of("polyline")[0].1.iter().find(|(name, _)| name == "points").unwrap().1;
    for point in points.split_whitespace() {
        let (x, y) = point.split_once(',').unwrap();
        let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
        assert!((62.0..=466.0).contains(&x) && (30.0..=252.0).contains(&y), "{point}");
    }
    let below: Vec<_> = of("text")
        .iter()
        .filter(|(_, of)| number(of, "y") == 270.0)
        .map(|(_, of)| number(of, "x"))
        .collect();
    assert!(below.len() > 2 && below.windows(2).all(|pair| pair[1] - pair[0] >= 50.0), "{below:?}");
    assert!(svg.contains("a&lt;b") && svg.contains("c3 dash"), "colours come again");
}

#[test]
fn a_row_beyond_the_scale_is_drawn_at_its_edge() {
    let row = |value: f64, interval| Row {
        name: "n".to_owned(),
        colour: 0,
        value,
        interval,
        beside: None,
        figure: "f".to_owned(),
    };
    let chart = Rows {
        title: "t".to_owned(),
        text: "d".to_owned(),
        x: Axis::log("x", [0.5, 2.0], |value| value.to_string()),
        band: Some((0.95, 1.05)),
        rows: vec![row(1.5, Some((0.001, 1e9))), row(f64::NAN, Some((0.9, 1.1)))],
    };
    let svg = chart.draw("one");
    crate::report::tests::elements(&svg);
    assert!(svg.contains("x1=\"206.0\"") && svg.contains("x2=\"362.0\""), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 1);
}
