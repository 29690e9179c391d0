"""Whom the parts of an instance run as when root started it: docs/adr/0014-who-runs-as-whom.md.

Numbers without a name, so that no machine has to be prepared. They lie in the range that systemd
leaves unused below `nobody`, and within the 65,536 that a rootless container has.
"""

# User: owns the embedded database.
POSTGRES = 65530
# User and group: runs queries, and reads the files of datasets.
QUERY = 65531
# Group: comes through the top folder of a home, on the way to what is its own.
HOME_GROUP = 65529
