"""The native reading of Avro messages. Absent where the package was installed without a compiler."""
