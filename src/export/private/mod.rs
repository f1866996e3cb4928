//! What C providers call: `ibv_cmd_*`, `verbs_set_ops` and their like.
