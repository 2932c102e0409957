{{- define "workbench.selector" -}}
app.kubernetes.io/name: kernel-workbench
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "workbench.networks" -}}
{{- range . }}
kernel-workbench/network-{{ . }}: "true"
{{- end }}
{{- end }}

{{- define "workbench.secret" -}}
{{ .Values.secrets.existing | default (printf "%s-secrets" .Release.Name) }}
{{- end }}

{{- define "workbench.redis" -}}
{{ .Values.redis.address | default (printf "%s-redis:6379" .Release.Name) }}
{{- end }}

{{- /* Variables from the secret: (dict "root" . "names" (list …) "optional" true) */ -}}
{{- define "workbench.fromSecret" -}}
{{- range .names }}
- name: {{ . }}
  valueFrom:
    secretKeyRef: {name: {{ include "workbench.secret" $.root }}, key: {{ . }}, optional: {{ $.optional | default false }}}
{{- end }}
{{- end }}

{{- define "workbench.settings" -}}
{{- range $name, $value := . }}
{{- if ne ($value | toString) "" }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* What every pod has; `user` is its user and group. */ -}}
{{- define "workbench.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsUser: {{ .user }}
  runAsGroup: {{ .user }}
  runAsNonRoot: true
  fsGroup: {{ .user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "workbench.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "workbench.webEnvironment" -}}
{{- include "workbench.fromSecret" (dict "root" . "names" (list "SECRET_KEY" "WORKER_TOKEN" "POSTGRES_PASSWORD" "REDIS_LEDGER_PASSWORD" "REDIS_CACHE_PASSWORD")) }}
{{- include "workbench.fromSecret" (dict "root" . "names" (list "METRICS_TOKEN" "EMAIL_PASSWORD") "optional" true) }}
- name: DATABASE_URL
  value: {{ .Values.postgres.url | default (printf "postgres://workbench:$(POSTGRES_PASSWORD)@%s-postgres:5432/workbench" .Release.Name) | quote }}
- {name: REDIS_URL, value: "redis://ledger:$(REDIS_LEDGER_PASSWORD)@{{ include "workbench.redis" . }}/1"}
- {name: GPU_REDIS_URL, value: "redis://ledger:$(REDIS_LEDGER_PASSWORD)@{{ include "workbench.redis" . }}/0"}
- {name: CACHE_URL, value: "redis://cache:$(REDIS_CACHE_PASSWORD)@{{ include "workbench.redis" . }}/2"}
- {name: PUBLIC_URL, value: {{ required "publicUrl: what people type into the browser" .Values.publicUrl | quote }}}
- {name: BEHIND_PROXY, value: "1"} # nothing but the front reaches the web server
{{- include "workbench.settings" .Values.settings }}
{{- end }}

{{- /* The pod template of a process of the web: root, name, networks, and optionally command, memory, port, probe. */ -}}
{{- define "workbench.webPod" -}}
metadata:
  labels:
    {{- include "workbench.selector" . | nindent 4 }}
    {{- include "workbench.networks" .networks | nindent 4 }}
spec:
  {{- include "workbench.pod" (dict "root" .root "user" 10001) | nindent 2 }}
  {{- if eq .name "migrate" }}
  restartPolicy: OnFailure
  {{- else }}
  initContainers:
    - name: migrated
      image: {{ .root.Values.images.cpu }}
      command: [sh, -c, "until python manage.py migrate --check; do sleep 3; done"]
      env: {{ include "workbench.webEnvironment" .root | nindent 8 }}
      securityContext: {{ include "workbench.confined" . | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: run, mountPath: /run}
        - {name: tmp, mountPath: /tmp}
      resources:
        limits: {memory: 512Mi}
  {{- end }}
  containers:
    - name: {{ .name }}
      image: {{ .root.Values.images.cpu }}
      {{- with .command }}
      command: {{ toJson . }}
      {{- end }}
      {{- with .port }}
      ports: [{containerPort: {{ . }}}]
      {{- end }}
      env: {{ include "workbench.webEnvironment" .root | nindent 8 }}
      securityContext: {{ include "workbench.confined" . | nindent 8 }}
      {{- if .port }}
      readinessProbe:
        httpGet: {path: /healthz, port: {{ .port }}}
        periodSeconds: 10
        timeoutSeconds: 6
      livenessProbe:
        httpGet: {path: /healthz, port: {{ .port }}}
        initialDelaySeconds: 20
        periodSeconds: 10
        timeoutSeconds: 6
        failureThreshold: 6
      {{- else if .probe }}
      readinessProbe:
        exec: {command: {{ toJson .probe }}}
        periodSeconds: 60
        timeoutSeconds: 20
      livenessProbe: # patient: a process that waits for Redis connects again by itself
        exec: {command: {{ toJson .probe }}}
        initialDelaySeconds: 30
        periodSeconds: 60
        timeoutSeconds: 20
        failureThreshold: 10
      {{- end }}
      resources:
        requests: {cpu: 250m, memory: 512Mi}
        limits: {memory: {{ .memory | default "2Gi" }}}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: run, mountPath: /run}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: data
      persistentVolumeClaim: {claimName: {{ .root.Values.data.existingClaim | default (printf "%s-data" .root.Release.Name) }}}
    - name: run # where the processes of a server share files
      emptyDir: {medium: Memory, sizeLimit: 256Mi}
    - name: tmp
      emptyDir: {}
{{- end }}

{{- /* A Deployment of such pods, with `replicas`. */ -}}
{{- define "workbench.webDeployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{ include "workbench.selector" . | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  {{- if eq .name "beat" }}
  strategy: {type: Recreate} # two would send everything twice
  {{- end }}
  selector:
    matchLabels: {{ include "workbench.selector" . | nindent 6 }}
  template: {{ include "workbench.webPod" . | nindent 4 }}
{{- end }}

{{- /* A Service for the pods `name`, at `port`. */ -}}
{{- define "workbench.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{ include "workbench.selector" . | nindent 4 }}
spec:
  selector: {{ include "workbench.selector" . | nindent 4 }}
  ports: [{name: http, port: {{ .port }}, targetPort: {{ .port }}}]
{{- end }}

{{- define "workbench.celeryProbe" -}}
["sh", "-c", "celery -A workers.gpu inspect ping --timeout 5 | grep -q \"@$HOSTNAME\""]
{{- end }}
