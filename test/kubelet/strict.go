//go:build linux

package kubelet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// only returns an error if fields of a struct other than the named ones are set.
func only(what string, v any, known ...string) error {
	s := reflect.ValueOf(v)
	for i := range s.NumField() {
		if name := s.Type().Field(i).Name; !s.Field(i).IsZero() && !slices.Contains(known, name) {
			return fmt.Errorf("%s has %s, which is not imitated", what, name)
		}
	}
	return nil
}

// check returns an error for everything that this package does not imitate.
func check(c Config) error {
	s := &c.Pod.Spec
	errs := []error{
		only("the pod", *s, "Containers", "InitContainers", "Volumes", "ServiceAccountName", "DeprecatedServiceAccount",
			"AutomountServiceAccountToken", "SecurityContext", "TerminationGracePeriodSeconds", "EnableServiceLinks", "RestartPolicy",
			"DNSPolicy",
			// Scheduling and preemption.
			"SchedulerName", "PriorityClassName", "TopologySpreadConstraints", "Tolerations", "Priority", "PreemptionPolicy", "Affinity", "NodeSelector"),
	}
	if s.SecurityContext != nil {
		errs = append(errs, only("the security context of the pod", *s.SecurityContext, "RunAsNonRoot", "RunAsUser", "RunAsGroup",
			"FSGroup", "SupplementalGroups", "SeccompProfile"))
	}
	if s.TerminationGracePeriodSeconds == nil || s.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, errors.New("the pod is not what the API server makes of the template of a Deployment"))
	}
	for i := range s.InitContainers {
		if r := s.InitContainers[i].RestartPolicy; r == nil || *r != corev1.ContainerRestartPolicyAlways {
			errs = append(errs, fmt.Errorf("container %s: init containers that end are not imitated", s.InitContainers[i].Name))
		}
	}
	for _, name := range c.Without {
		if !slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			errs = append(errs, fmt.Errorf("there is no container %s to leave out", name))
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if slices.Contains(c.Without, list[i].Name) {
				continue
			}
			if err := checkContainer(c, &list[i]); err != nil {
				errs = append(errs, fmt.Errorf("container %s: %w", list[i].Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func checkContainer(c Config, s *corev1.Container) error {
	errs := []error{only("it", *s, "Name", "Image", "Command", "Args", "Env", "Ports", "VolumeMounts", "SecurityContext",
		"StartupProbe", "ReadinessProbe", "LivenessProbe", "RestartPolicy",
		"Resources", "ImagePullPolicy", "TerminationMessagePath", "TerminationMessagePolicy")}
	if _, ok := c.Images[s.Image]; !ok {
		errs = append(errs, fmt.Errorf("there is no image %q", s.Image))
	}
	for _, e := range s.Env {
		if strings.Contains(e.Value, "$(") {
			errs = append(errs, fmt.Errorf("variable %s: %q: variables in it are not imitated", e.Name, e.Value))
		}
	}
	for _, m := range s.VolumeMounts {
		errs = append(errs, only("the mount of "+m.Name, m, "Name", "MountPath", "ReadOnly"))
	}
	if sc := s.SecurityContext; sc == nil || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
		sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL") || len(sc.Capabilities.Add) > 0 {
		errs = append(errs, errors.New("only containers without any rights are imitated: allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}"))
	} else {
		errs = append(errs, only("its security context", *sc, "RunAsNonRoot", "RunAsUser", "RunAsGroup", "AllowPrivilegeEscalation",
			"ReadOnlyRootFilesystem", "Capabilities", "SeccompProfile"))
	}
	for what, p := range map[string]*corev1.Probe{"startup": s.StartupProbe, "readiness": s.ReadinessProbe, "liveness": s.LivenessProbe} {
		if p != nil {
			errs = append(errs, checkProbe("its "+what+" probe", p))
		}
	}
	return errors.Join(errs...)
}

func checkProbe(what string, p *corev1.Probe) error {
	if p.HTTPGet == nil {
		return fmt.Errorf("%s is none by HTTP, which is not imitated", what)
	}
	if p.HTTPGet.Scheme != corev1.URISchemeHTTP {
		return fmt.Errorf("%s is by %s, which is not imitated", what, p.HTTPGet.Scheme)
	}
	return errors.Join(
		only(what, *p, "ProbeHandler", "InitialDelaySeconds", "TimeoutSeconds", "PeriodSeconds", "SuccessThreshold", "FailureThreshold"),
		only(what, p.ProbeHandler, "HTTPGet"),
		only(what, *p.HTTPGet, "Path", "Port", "Scheme"))
}
