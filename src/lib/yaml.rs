//! The only door to YAML.
