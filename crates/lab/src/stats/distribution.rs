//! The normal distribution and Student's t, good to twelve digits where the tests look.

use std::f64::consts::PI;

/// From here out the tail is computed by itself: 1 − Φ would have lost its digits.
const TAIL_FROM: f64 = 3.0;

/// Terms of the continued fractions; the slowest (the tail at 3) needs some eighty.
const TERMS: u32 = 300;

/// The normal distribution function. Near the middle by its power series (Marsaglia, "Evaluating the
/// Normal Distribution", 2004), in the tails by Laplace's continued fraction.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    if z.abs() > TAIL_FROM {
        let rest = (1..=TERMS).rev().fold(z.abs(), |rest, k| z.abs() + f64::from(k) / rest);
        let tail = density / rest;
        return if z < 0.0 { tail } else { 1.0 - tail };
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-18 {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    0.5 + density * sum
}

/// The inverse of [`normal_cdf`]; infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    inverse(normal_cdf, p)
}

/// Student's t distribution function with `df` degrees of freedom, not necessarily whole.
#[must_use]
pub fn t_cdf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * beta_regularized(df / (df + t * t), df / 2.0, 0.5);
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// The inverse of [`t_cdf`]; infinite at 0 and 1.
#[must_use]
pub fn t_quantile(p: f64, df: f64) -> f64 {
    inverse(|t| t_cdf(t, df), p)
}

/// Inverts the distribution function of a symmetric distribution, by bisection in its lower half.
fn inverse(cdf: impl Fn(f64) -> f64, p: f64) -> f64 {
    if p > 0.5 {
        return -inverse(cdf, 1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut low, mut high) = (-1.0, 0.0);
    while cdf(low) > p {
        (low, high) = (2.0 * low, low);
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if cdf(middle) < p { low = middle } else { high = middle }
    }
}

/// The regularized incomplete beta function, by the continued fraction of DLMF 8.17.22 evaluated with
/// Lentz's method.
fn beta_regularized(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on one side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_regularized(1.0 - x, b, a);
    }
    let scale = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut fraction) = (1.0, d);
    for k in 1..=TERMS {
        let m = f64::from(k);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for step in [even, odd] {
            d = 1.0 / away(1.0 + step * d);
            c = away(1.0 + step / c);
            fraction *= c * d;
        }
        if (fraction / before - 1.0).abs() < 4e-16 {
            break;
        }
    }
    scale.exp() * fraction / a
}

/// The logarithm of the gamma function for positive numbers: Stirling's series (DLMF 5.11.1), after
/// the recurrence has brought the number to where the series is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0_f64);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series =
        1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series / x - product.ln()
}
