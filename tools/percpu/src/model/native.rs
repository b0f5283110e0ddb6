// SPDX-License-Identifier: MIT
//! Distributions as native histograms of Prometheus, and as exponential ones of OpenTelemetry.

use super::{Distribution, Layout};

/// Observations in buckets of 2^(2^-schema) from bound to bound. Bucket i ends at the i-th power of
/// that, which belongs to it. (OpenTelemetry calls it i - 1.)
#[derive(Clone, Debug, PartialEq)]
pub struct Native {
    pub schema: i32,
    /// What is not above it is in the zero bucket.
    pub zero_threshold: f64,
    pub zero_count: u64,
    /// Numbers, rising, and counts that are not 0. What was beyond the last bound is in the bucket of
    /// infinity, the first one that begins above all finite numbers.
    pub buckets: Vec<(i32, u64)>,
    /// Of all buckets.
    pub count: u64,
}

/// The number of buckets in an octave as its logarithm, if the format has it and the ends of both
/// have the same bounds; and the number of the bucket that ends at 2^low.
fn schema(low: i32, high: i32, buckets: u32) -> Option<(i32, i32)> {
    let octaves = u32::try_from(high.checked_sub(low)?).ok()?;
    if octaves == 0 || buckets == 0 || !(-1074..=1024).contains(&low) || high > 1024 {
        return None;
    }
    if buckets.is_multiple_of(octaves) {
        let each = buckets / octaves;
        let schema = each.trailing_zeros() as i32;
        let fits = each.is_power_of_two() && schema <= 8;
        return fits.then(|| (schema, low << schema));
    }
    let width = octaves / buckets;
    let fits = octaves.is_multiple_of(buckets) && width.is_power_of_two() && width <= 16;
    let schema = -(width.trailing_zeros() as i32);
    let width = width as i32;
    (fits && low % width == 0).then(|| (schema, low / width))
}

impl Native {
    /// `None` if the buckets are not such ones, or there are more observations than servers take.
    pub fn new(d: &Distribution) -> Option<Self> {
        let Layout::Octaves { low, high, buckets } = *d.layout() else {
            return None;
        };
        let (schema, first) = schema(low, high, buckets)?;
        let beyond = if schema < 0 {
            (1024 >> -schema) + 1
        } else {
            (1024 << schema) + 1
        };
        let mut native = Self {
            schema,
            zero_threshold: f64::from(low).exp2(),
            zero_count: 0,
            buckets: Vec::new(),
            count: 0,
        };
        for b in d.buckets() {
            native.count = native.count.checked_add(b.count)?;
            match d.layout().number(b.upper) {
                0 => native.zero_count = b.count,
                n if n > buckets as usize => native.buckets.push((beyond, b.count)),
                n => native.buckets.push((first + n as i32, b.count)),
            }
        }
        i64::try_from(native.count).ok()?;
        Some(native)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up to 1, and beyond 2^32.
    fn distribution(buckets: u32, low: u64, beyond: u64) -> Distribution {
        let json = format!(
            r#"{{"count":1,"sum":1.0,
                "layout":{{"octaves":{{"low":-32,"high":32,"buckets":{buckets}}}}},
                "buckets":[{{"lower":0.5,"upper":1.0,"count":{low},"sum":1.0}},
                           {{"lower":4294967296.0,"upper":"+Inf","count":{beyond},"sum":1.0}}]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn infinity_has_a_bucket_of_its_own() {
        for (buckets, schema, beyond) in [(4, -4, 65), (32, -1, 513), (64, 0, 1025), (128, 1, 2049)]
        {
            let native = Native::new(&distribution(buckets, 2, 3)).unwrap();
            assert_eq!((native.schema, native.count), (schema, 5));
            assert_eq!(native.buckets, [(0, 2), (beyond, 3)]);
        }
    }

    #[test]
    fn counts_end_at_those_of_servers() {
        let most = i64::MAX as u64;
        assert_eq!(
            Native::new(&distribution(64, most - 1, 1)).unwrap().count,
            most
        );
        assert_eq!(Native::new(&distribution(64, most, 1)), None);
        assert_eq!(Native::new(&distribution(64, u64::MAX, 1)), None);
    }

    #[test]
    fn schemas_are_those_with_the_same_bounds() {
        for (low, high, buckets, found) in [
            (-20, 10, 240, Some((3, -160))),
            (-20, 10, 30, Some((0, -20))),
            (0, 1, 256, Some((8, 0))),
            (0, 1, 512, None),
            (-20, 10, 90, None),
            (-20, 10, 31, None),
            (-20, 10, 15, Some((-1, -10))),
            (-32, 32, 4, Some((-4, -2))),
            (-31, 33, 4, None),
            (-64, 64, 4, None),
            (0, 3, 1, None),
            (-1074, 1024, 2098, Some((0, -1074))),
            (0, 1025, 1025, None),
            (5, 5, 0, None),
            (i32::MIN, i32::MAX, 7, None),
        ] {
            assert_eq!(schema(low, high, buckets), found, "{low} {high} {buckets}");
        }
    }
}
