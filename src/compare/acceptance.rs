//! Made-up values of starts whose truth is known, to count how often the decision is right.
