//! The declared operations on port forwards, server pools and load balancers, in the vendor's words.

use super::super::operations::{Body, Operation, Param, Type, may, must, rows};

/// An operation on port forwards, server pools and load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::sim) enum Op {
    Forwards,
    AddForward,
    Forward,
    ChangeForward,
    DeleteForward,
    Pools,
    AddPool,
    Pool,
    ChangePool,
    DeletePool,
    Hosts,
    AddHost,
    RemoveHost,
    Balancers,
    AddBalancer,
    Balancer,
    ChangeBalancer,
    DeleteBalancer,
}

const BALANCER: Body = Body::Object(&[
    must("name", Type::Text),
    may("description", Type::Text),
    must("type", Type::Text),
    may("locked", Type::Boolean),
    may(
        "front_end",
        Type::Object(&[
            must("port", Type::Integer),
            may("ip_address", Type::Text),
            may(
                "tls",
                Type::Object(&[
                    may("is_enabled", Type::Boolean),
                    may("domain", Type::Text),
                    may("tls_termination", Type::Boolean),
                ]),
            ),
        ]),
    ),
    may(
        "back_end",
        Type::Object(&[must("serverpool_id", Type::Text), must("target_port", Type::Integer)]),
    ),
]);
const FORWARD: &[Param] = &[
    must("local_port", Type::Integer),
    must("public_port", Type::Integer),
    may("vm_id", Type::Integer),
    may("public_ip", Type::Text),
    must("protocol", Type::OneOf(&["udp", "tcp"])),
    may("till_public_port", Type::Integer),
    may("nested_cs_id", Type::Text),
];

/// All of them.
#[rustfmt::skip]
pub(in crate::sim) const OPERATIONS: &[Operation] = rows! { Ingress;
    Forwards "listPortforwards" "GET" cloudspace "/portforwards",
        &[], Body::Nothing;
    AddForward "createPortforward" "POST" cloudspace "/portforwards",
        FORWARD, Body::Nothing;
    Forward "getPortforward" "GET" cloudspace "/portforwards/{portforward_id}",
        &[], Body::Nothing;
    ChangeForward "updatePortforward" "PUT" cloudspace "/portforwards/{portforward_id}",
        FORWARD, Body::Nothing;
    DeleteForward "deletePortforward" "DELETE" cloudspace "/portforwards/{portforward_id}",
        &[], Body::Nothing;
    Pools "listCloudspacesServerPools" "GET" cloudspace "/ingress/server-pools",
        &[], Body::Nothing;
    AddPool "createCloudspacesServerPool" "POST" cloudspace "/ingress/server-pools",
        &[must("name", Type::Text), may("description", Type::Text)], Body::Nothing;
    Pool "getServerPoolInfo" "GET" cloudspace "/ingress/server-pools/{serverpool_id}",
        &[], Body::Nothing;
    ChangePool "updateServerPoolInfo" "PUT" cloudspace "/ingress/server-pools/{serverpool_id}",
        &[may("name", Type::Text), may("description", Type::Text),
            may("locked", Type::Boolean)], Body::Nothing;
    DeletePool "deleteServerPool" "DELETE" cloudspace "/ingress/server-pools/{serverpool_id}",
        &[], Body::Nothing;
    Hosts "listServerPoolHosts" "GET" cloudspace "/ingress/server-pools/{serverpool_id}/hosts",
        &[], Body::Nothing;
    AddHost "addHostToServerPool" "POST" cloudspace
        "/ingress/server-pools/{serverpool_id}/hosts",
        &[must("address", Type::Text)], Body::Nothing;
    RemoveHost "removeHostFromServerPool" "DELETE" cloudspace
        "/ingress/server-pools/{serverpool_id}/hosts/{host_id}",
        &[], Body::Nothing;
    Balancers "listLoadBalancers" "GET" cloudspace "/ingress/load-balancers",
        &[], Body::Nothing;
    AddBalancer "createLoadBalancer" "POST" cloudspace "/ingress/load-balancers",
        &[], BALANCER;
    Balancer "showLoadBalancerInfo" "GET" cloudspace
        "/ingress/load-balancers/{loadbalancer_id}",
        &[], Body::Nothing;
    ChangeBalancer "updateLoadBalancerInfo" "PUT" cloudspace
        "/ingress/load-balancers/{loadbalancer_id}",
        &[], BALANCER;
    DeleteBalancer "deleteLoadBalancer" "DELETE" cloudspace
        "/ingress/load-balancers/{loadbalancer_id}",
        &[], Body::Nothing;
};
