package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Get reads one object or list of an API server by the elements of its path, as JSON. It limits how much it reads. found is false
// if the object does not exist.
type Get func(ctx context.Context, path ...string) (body []byte, found bool, err error)

// Fetch reads a Deployment and the objects that belong to it. Except for the Deployment, objects that the user may not read or
// that do not exist are left out and listed in the second result.
func Fetch(ctx context.Context, get Get, namespace, name string) (*Input, []error, error) {
	c := collector{defaultNamespace: namespace}
	body, found, err := get(ctx, "apis", "apps", "v1", "namespaces", namespace, "deployments", name)
	if err == nil && !found {
		err = fmt.Errorf("there is no such Deployment")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Deployment %s of namespace %s: %w", name, namespace, err)
	}
	if err := c.object("Deployment", body); err != nil {
		return nil, nil, fmt.Errorf("read Deployment %s of namespace %s: %w", name, namespace, err)
	}
	var unread []error
	read := func(list bool, kind string, path ...string) {
		body, found, err := get(ctx, path...)
		switch {
		case err == nil && !found:
			return
		case err == nil && list:
			err = c.list(kind, body)
		case err == nil:
			err = c.object(kind, body)
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", kind, err))
		}
	}
	const rbac = "rbac.authorization.k8s.io"
	read(true, "Service", "api", "v1", "namespaces", namespace, "services")
	read(true, "NetworkPolicy", "apis", "networking.k8s.io", "v1", "namespaces", namespace, "networkpolicies")
	read(true, "RoleBinding", "apis", rbac, "v1", "namespaces", namespace, "rolebindings")
	read(true, "ClusterRoleBinding", "apis", rbac, "v1", "clusterrolebindings")
	pod := &c.deployments[0].Spec.Template.Spec
	for _, name := range configMapNames(pod) {
		read(false, "ConfigMap", "api", "v1", "namespaces", namespace, "configmaps", name)
	}
	for _, role := range rolesOf(c.bindings, namespace, pod.ServiceAccountName) {
		if role.Kind == "Role" {
			read(false, "Role", "apis", rbac, "v1", "namespaces", namespace, "roles", role.Name)
		} else {
			read(false, "ClusterRole", "apis", rbac, "v1", "clusterroles", role.Name)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	in, err := c.input(name)
	return in, unread, err
}

// list adds the items of a list, which do not name their kind.
func (c *collector) list(kind string, body []byte) error {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if c.count++; c.count > maxObjects {
			return fmt.Errorf("more than %d objects", maxObjects)
		}
		if err := c.object(kind, item); err != nil {
			return err
		}
	}
	return nil
}

// configMapNames returns the ConfigMaps that a pod mounts.
func configMapNames(pod *corev1.PodSpec) []string {
	var names []string
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil && !slices.Contains(names, v.ConfigMap.Name) {
			names = append(names, v.ConfigMap.Name)
		}
	}
	return names
}
