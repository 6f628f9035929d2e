//! How soon consumers are back, in its short form.

use bench::returns;

/// The short form of `deploy/broker-returns`.
#[tokio::test]
async fn all_consumers_are_back_within_ten_seconds_of_a_broker_that_dies_again_and_again() {
    let returns = returns::measure(3, |_, _| {}).await;
    assert_eq!(returns.problems, Vec::<String>::new());
    for one in &returns.each {
        eprintln!(
            "return: consuming after {:.1?}, settled after {:.1?}",
            one.consuming, one.settled
        );
        assert!(one.settled < returns::LIMIT, "{one:?}");
    }
}
